"""A loader worker sits in the kernel in state D, as behind a dead mount: it waits for a vfork child."""

import ctypes
import os
import signal

import torch
import torch.distributed as dist
import training

CLONE_VM, CLONE_VFORK = 0x100, 0x4000
args = training.arguments()
ends_with_rank, kept_by_rank = os.pipe()


class Shards(training.Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        if training.my_rank() == args.rank and training.batch_of(index) == args.at:
            self.read_shard()
        return super().__getitem__(index)

    def read_shard(self) -> None:
        libc = ctypes.CDLL(None)
        os.close(kept_by_rank)
        libc.fdopen.restype = ctypes.c_void_p
        file = ctypes.c_void_p(libc.fdopen(ends_with_rank, b"r"))
        stack = ctypes.create_string_buffer(1 << 20)
        top = ctypes.c_void_p((ctypes.addressof(stack) + len(stack)) & ~15)
        # The child is C only (fgetc), and ends when its rank does: the pipe closes.
        libc.clone(libc.fgetc, top, CLONE_VM | CLONE_VFORK | signal.SIGCHLD, file)


dist.init_process_group("gloo")
training.train(args, lambda: None, training.loader(Shards(), workers=2))
