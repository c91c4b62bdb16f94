/* A team's own extension: it computes a little, waits for a device a lot, and may be stuck in either. No Python here. */
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#define SLICE_S 0.1
#define MOST_THREADS 16

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* So many seconds, of each of which the given share on a core. */
void work(double seconds, double share) {
    double until = now() + seconds;
    volatile double sum = 0;
    while (now() < until) {
        double busy = now() + SLICE_S * share;
        while (now() < busy) sum += 1.0 / (1.0 + sum);
        double rest = SLICE_S * (1 - share);
        struct timespec t = {0, (long)(rest * 1e9)};
        nanosleep(&t, 0);
    }
}

/* Nobody ever posts it. */
void stuck(void) {
    sem_t never;
    sem_init(&never, 0, 0);
    while (sem_wait(&never)) {}
}

struct job { double seconds, share; };

static void *one(void *told) {
    struct job *job = told;
    if (job->seconds < 0) stuck();
    else work(job->seconds, job->share);
    return 0;
}

/* The same in threads of its own, while the caller waits for them; fewer than 0 seconds: for ever. */
void work_in_threads(double seconds, double share, int threads) {
    pthread_t ids[MOST_THREADS];
    struct job job = {seconds, share};
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    for (int i = 0; i < threads; i++) pthread_create(&ids[i], 0, one, &job);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], 0);
}
