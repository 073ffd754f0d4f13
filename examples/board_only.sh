#!/bin/sh
# The task board alone: no repository, no agents, no key. Two workers take tasks at the same time.
set -eu

board=$(mktemp -d)
cd "$board"

for subject in header body; do
    team tasks add "Parse the $subject"
done
team tasks add "Publish" --blocked-by task_1,task_2 --check 'test -s done.txt'

# A worker claims what is ready until nothing is left. Of two that want the same task only one gets
# it; the other is told who has it, and takes the next.
worker() {
    while id=$(team tasks next | sed -n 's/^\(task_[0-9]*\) .*/\1/p') && [ -n "$id" ]; do
        if team tasks claim "$id" --as "$1" >/dev/null 2>&1; then
            echo "$id $1" >>done.txt
            team tasks complete "$id" --as "$1" --summary "parsed by $1" >/dev/null
        fi
    done
}

for name in anna ben; do
    worker "$name" &
done
wait

team tasks list
test "$(cut -d' ' -f1 done.txt | sort)" = "$(printf 'task_%s\n' 1 2 3)"
echo "Each task was done exactly once. The board is in $board/.tasks"
