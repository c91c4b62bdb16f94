"""Every tool by its short name, in the order of the table."""

from __future__ import annotations

from tests.hangbench.tools import (
    ddetect_attach,
    ddetect_launch,
    detail,
    ft_launcher,
    pyspy,
    torchdebug,
    torchfrtrace,
    torchrun,
)
from tests.hangbench.tools.tool import Tool

TOOLS: dict[str, Tool] = {
    "launch": ddetect_launch.TOOL,
    "attach": ddetect_attach.TOOL,
    "pyspy": pyspy.TOOL,
    "torchfrtrace": torchfrtrace.AS_SHIPPED,
    "torchfrtrace_repaired": torchfrtrace.REPAIRED,
    "torchdebug": torchdebug.TOOL,
    "detail": detail.TOOL,
    "ft_launcher": ft_launcher.TOOL,
    "torchrun": torchrun.TOOL,
}
