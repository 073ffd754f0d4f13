"""Jobs and their output as text for a model."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from team_runtime.daemons.job_records import COMPLETED, LOST, Job
from team_runtime.store.spool import end_of_spool, joined, next_kept, read_spool
from team_runtime.text import decode, one_line

TAIL: Final = 2000
"""Bytes of output that a notification shows."""
PAGE: Final = 30_000
"""Bytes of output that one call shows."""
_HEAD: Final = PAGE * 2 // 3
_COMMAND: Final = 200
_NAMED: Final = 5
_CONTINUATIONS: Final = 3
"""How many bytes may follow the first one of a character."""


@dataclass(frozen=True)
class Shown:
    """A part of a job's output."""

    text: str
    cursor: int
    """Where the next part begins."""


def how_it_ended(job: Job) -> str:
    """`failed with exit code 1`, for a job that has ended."""
    if job.status == LOST:
        return "was lost when the runtime was killed"
    if job.reason is not None:
        return f"was ended: {job.reason}"
    if job.signal is not None:
        return f"was ended by signal {job.signal}"
    return "completed" if job.status == COMPLETED else f"failed with exit code {job.exit_code}"


def job_line(job: Job) -> str:
    """A job in one line."""
    state = f"running since {job.started}" if job.running else how_it_ended(job)
    task = f" {job.task}" if job.task else ""
    return f"{job.id} of {job.agent}{task}: {state}: {one_line(job.command)}"


def notification(job: Job, output: Path, contained: bool) -> str:
    """What an agent is told when its job has ended."""
    lines = [f"`{one_line(job.command, _COMMAND)}` {how_it_ended(job)}."]
    if job.status == LOST:
        lines.append("How far it came is unknown: look before you repeat it.")
    elif job.survivors:
        lines.append(_left_running(job))
    elif contained:
        lines.append("Whatever it had left running was ended with it.")
    end = end_of_spool(output)
    if end == 0:
        lines.append("It wrote no output.")
    elif end <= TAIL:
        lines += ["Its output:", _read(output, 0, end)]
    else:
        lines += [f"The end of its {end} bytes of output:", _read(output, end - TAIL, end)]
    return "\n".join(lines)


def _left_running(job: Job) -> str:
    count = len(job.survivors)
    named = ", ".join(one_line(each, 40) for each in job.survivors[:_NAMED])
    named += f" and {count - _NAMED} more" if count > _NAMED else ""
    processes = "1 process" if count == 1 else f"{count} processes"
    return (
        f"Its shell exited while {processes} that it had started still ran, now ended: {named}. "
        "What shall go on must be what the job waits for."
    )


def new_output(output: Path, start: int, running: bool) -> Shown:
    """What came since byte `start`: head and tail, when it is more than one call shows."""
    end = _whole_end(output, end_of_spool(output), running)
    if end - start <= PAGE:
        return Shown(_read(output, start, end), end)
    head_end, tail_start = start + _HEAD, end - (PAGE - _HEAD)
    note = f"\n… [{tail_start - head_end} bytes left out; read on with cursor={head_end}] …\n"
    text = _read(output, start, head_end) + note + _read(output, tail_start, end)
    return Shown(text, end)


def next_output(output: Path, start: int, running: bool) -> Shown:
    """One page from byte `start` on."""
    last = end_of_spool(output)
    end = min(next_kept(output, start) + PAGE, last)
    end = _whole_end(output, end, running or end < last)
    return Shown(_read(output, start, end), max(start, end))


def _whole_end(output: Path, end: int, more_comes: bool) -> int:
    """`end`, before a character of which only a part lies before it."""
    if not more_comes:
        return end
    last = read_spool(output, max(0, end - _CONTINUATIONS - 1), end)
    data = last[-1].data if last else b""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data.lstrip(bytes(range(0x80, 0xC0))))
    return end - len(decoder.getstate()[0])


def _read(output: Path, start: int, end: int) -> str:
    """The output between two places, as far as it was kept."""
    return decode(joined(read_spool(output, start, end), start, end, _gap))


def _gap(count: int) -> bytes:
    return f"\n… [{count} bytes were not kept] …\n".encode()
