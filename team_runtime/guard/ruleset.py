"""Many rules, each found by the tool and the program that it is about, in the order given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

from team_runtime.guard import shell
from team_runtime.guard.base import Effect, Question
from team_runtime.guard.rules import Command, Rule, allows, denied_tools, denies

Place: TypeAlias = tuple[int, Rule]
"""A rule and where it stands."""


class RuleSet:
    """Rules of one kind."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._by_tool: defaultdict[str, list[Place]] = defaultdict(list)
        self._by_program: defaultdict[str, list[Place]] = defaultdict(list)
        for place in enumerate(rules):
            rule = place[1]
            program = rule.pattern.program if isinstance(rule.pattern, Command) else None
            if program is not None:
                self._by_program[program].append(place)
            else:
                for tool in denied_tools(rule):
                    self._by_tool[tool].append(place)

    def denying(self, question: Question) -> Rule | None:
        """The first rule that covers any part of the call."""
        line = _line(question)
        if line is None:
            found = self._by_tool.get(question.tool, [])
            return next((rule for _, rule in found if denies(rule, question)), None)
        for _, rule in self._about(question.tool, self._named(line)):
            if not isinstance(rule.pattern, Command) or rule.pattern.denies(line):
                return rule
        return None

    def allowing(self, question: Question) -> tuple[Rule, ...]:
        """The first rule that covers the whole of the call, or rules that do so together; nothing
        when some part is covered by none."""
        line = _line(question)
        if line is None:
            found = self._by_tool.get(question.tool, [])
            return tuple([rule for _, rule in found if allows(rule, question)][:1])
        argvs = line.allowable or ()
        for _, rule in self._about(question.tool, {shell.base(a[0]) for a in argvs[:1]}):
            if not isinstance(rule.pattern, Command) or rule.pattern.allows(line):
                return (rule,)
        return () if line.moves else self._together(question.tool, argvs)

    def _together(self, tool: str, argvs: Iterable[shell.Argv]) -> tuple[Rule, ...]:
        """Not for parts that run where another part led them: there a name means something else."""
        rules: dict[Rule, None] = {}
        for argv in argvs:
            for _, rule in self._about(tool, {shell.base(argv[0])}):
                if isinstance(rule.pattern, Command) and rule.pattern.covers(argv):
                    rules[rule] = None
                    break
            else:
                return ()
        return tuple(rules)

    def _named(self, line: shell.Line) -> Iterable[str]:
        """The programs of our rules that a text may run."""
        ours = self._by_program.keys()
        if line.commands is not None:
            named = {shell.base(argv[0]) for argv in line.runs}
            return named.union(*(words & ours for _, words in line.risky))
        composed = {name for name in ours for could in line.composed if could.fullmatch(name)}
        return (line.words & ours) | composed

    def _about(self, tool: str, programs: Iterable[str]) -> Iterable[Place]:
        """In the order in which they stand."""
        found = [self._by_program[name] for name in programs if name in self._by_program]
        general = self._by_tool.get(tool, [])
        return sorted(chain(general, *found), key=itemgetter(0)) if found else general


def _line(question: Question) -> shell.Line | None:
    """The text of a command; `None` for any other call."""
    text = question.command if question.effect is Effect.COMMAND else None
    return None if text is None else shell.read(text)
