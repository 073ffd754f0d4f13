"""Shell texts and what must be decided about them under `ALLOW` and `DENY`, by what they try.

A template holds `CMD`, which stands in turn for a command that a rule allows, one that no rule is
about, and one that a rule denies: `PLAIN` templates run just that command, so they get its own
verdict; `OPAQUE` ones do something else to it, so no rule may allow them; `HIDDEN` ones mention it
where it is not run at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

ALLOW: Final = [
    f"Bash({command} *)"
    for command in (
        *("ls", "cat", "echo", "grep", "rg", "find", "sort", "uniq", "head", "tail", "wc", "tar"),
        *("sed", "awk", "git", "perl", "python", "make", "npm run", "date", "tree", "less", "xxd"),
        *("true", "diff", "curl", "node", "cd", "./run.sh", "sqlite3", "vim", "man", "file"),
        *("grep -r", "python -c", "git config", "uv run pytest"),
    )
]
DENY: Final = ["Bash(rm *)", "Bash(git push *)", "Bash(npm publish *)", "Bash(dd *)"]

ALLOWED, UNKNOWN, DENIED = "cat f", "touch f", "rm f"
"""What `CMD` stands for."""

PLAIN: Final[dict[str, list[str]]] = {
    "nothing around it": [
        "CMD", "  CMD", "CMD  ", "\tCMD\t", "\nCMD\n", "\n\n  CMD", "CMD\n\n\n",
    ],
    "a separator": [
        "ls; CMD", "CMD; ls", "ls && CMD", "CMD && ls", "ls || CMD", "CMD || ls", "ls | CMD",
        "CMD | ls", "ls |& CMD", "ls & CMD", "CMD &", "CMD;", "ls\nCMD", "CMD\nls", "ls;CMD;ls",
        "ls&CMD", "ls|CMD", "ls&&CMD", "ls||CMD", "ls &&\nCMD", "ls |\n\nCMD", "ls ;CMD",
        "CMD&ls", "true;true;CMD", "ls -l /tmp; wc -l g; CMD", "ls\n\nwc g\n\nCMD",
        "ls &\nCMD &\n",
    ],
    "padding": [
        f"ls{' ' * 200}; CMD", f"ls{chr(9) * 80};{' ' * 300}CMD", f"{' ' * 500}CMD",
        f"ls{chr(10) * 100}CMD", f"ls{' ' * 2000}&& CMD",
    ],
    "a long chain": [
        "true; " * 50 + "CMD", "true && " * 51 + "CMD", "CMD" + "; true" * 60,
        "true | " * 99 + "CMD", "true\n" * 500 + "CMD",
    ],
    "quotes around other words": [
        "echo 'a b'; CMD", 'echo "a b" && CMD', "grep 'x; y' g; CMD", "grep \"it's\" g | CMD",
        "echo '$(ls)' ; CMD", "echo '`ls`'; CMD", "echo 'a\nb'; CMD", "echo '' ; CMD",
        "echo 'é' ; CMD",
    ],
    "output that is thrown away or joined": [
        "CMD 2>/dev/null", "CMD >/dev/null", "CMD > /dev/null 2>&1", "CMD 2>&1", "CMD >&2",
        "CMD </dev/null", "CMD 1>&2", "ls 2>/dev/null; CMD", "CMD 2>&1 | head -5",
        "CMD >>/dev/null", "2>&1 CMD", "CMD 2> /dev/null && ls", "CMD 3>&1", "CMD 5>/dev/null",
    ],
    "a wrapper that runs just what follows": [
        "timeout 5 CMD", "timeout 1.5m CMD", "timeout -k 5 10 CMD", "timeout -s KILL 10 CMD",
        "timeout --signal=KILL 9 CMD", "timeout --foreground 9 CMD", "nice CMD", "nice -n 5 CMD",
        "nice -10 CMD", "nohup CMD", "nohup CMD &", "time CMD", "time -p CMD", "stdbuf -oL CMD",
        "stdbuf -o0 -eL CMD", "command CMD", "timeout 5 nice -n 3 CMD", "nice timeout 5 CMD",
        "time timeout 2 nice stdbuf -oL CMD", "ls | timeout 5 CMD", "timeout 5 ls; nice CMD",
    ],
}  # fmt: skip

OPAQUE: Final[dict[str, list[str]]] = {
    "a substitution": [
        "echo $(CMD)", 'echo "$(CMD)"', "echo `CMD`", 'echo "`CMD`"', "ls $(CMD)", "$(CMD)",
        "`CMD`", "echo $(echo $(CMD))", 'echo "a $(CMD) b"', "cat <(CMD)", "ls >(CMD)",
        "cat <(ls) <(CMD)", "echo ${x:-$(CMD)}", "echo ${x:=`CMD`}", "echo $((1 + $(CMD)))",
        "echo $[ $(CMD) ]", "x=$(CMD)", "x=`CMD` ls", "ls $(CMD) | wc", "echo \\$(CMD) $(CMD)",
        "echo ${ CMD; }", "echo ${| CMD; }", "a[$(CMD)]=1", "echo ${a[$(CMD)]}", "ls $(\nCMD\n)",
    ],
    "a group or a compound command": [
        "(CMD)", "( CMD )", "((CMD))", "{ CMD; }", "! CMD", "(ls; CMD)", "{ ls; CMD; } | wc",
        "if ls; then CMD; fi", "if CMD; then ls; fi", "if ls; then ls; else CMD; fi",
        "for i in 1 2; do CMD; done", "for ((;;)); do CMD; done", "while CMD; do ls; done",
        "until ls; do CMD; done", "case x in x) CMD;; esac", "select x in a; do CMD; done",
        "[[ -n x ]] && CMD", "[ -n x ] && CMD", "test -n x && CMD", "coproc CMD",
        "coproc x { CMD; }", "(((CMD)))", "{ { { CMD; }; }; }", "ls && (ls && (ls && CMD))",
        "! ! CMD",
    ],
    "a function, an alias or a trap": [
        "f() { CMD; }; f", "function f { CMD; }; f", "ls() { CMD; }; ls", "f() (CMD); f",
        "alias ls='CMD'\nls", "trap 'CMD' EXIT", "trap 'CMD' DEBUG; ls", "unalias ls; CMD",
        "hash -p /bin/x ls; CMD", "enable -f ./x.so y; CMD", "shopt -s extglob; CMD",
        "set -x; CMD", "declare -f f; CMD", "PROMPT_COMMAND='CMD'", "export ENV=x; CMD",
        "bind -x '\"a\":CMD'",
    ],
    "text that is read again": [
        "eval CMD", "eval 'CMD'", "eval eval CMD", "bash -c 'CMD'", 'sh -c "CMD"', "zsh -c 'CMD'",
        "dash -c 'CMD'", "/bin/sh -c 'CMD'", "bash <<< 'CMD'", "echo 'CMD' | sh",
        "echo CMD | bash -s", "source <(echo CMD)", ". <(echo CMD)", "bash <<E\nCMD\nE",
        "ssh localhost 'CMD'", "busybox sh -c 'CMD'", "env -S 'CMD'", "su -c 'CMD'",
        "script -c 'CMD' /dev/null", "tmux new 'CMD'", "screen -dm CMD", "echo CMD | at now",
        "expect -c 'spawn CMD'", "exec CMD", "builtin CMD", "command -p CMD", "fish -c 'CMD'",
        "watch 'CMD'", "xonsh -c 'CMD'",
    ],
    "a here-document or a here-string": [
        "cat <<E\n$(CMD)\nE", "cat <<E\n`CMD`\nE", "cat <<'E'\nx\nE\nCMD",
        "cat <<-E\n\tx\n\tE\nCMD", "cat <<< x; CMD", "cat <<< $(CMD)", 'cat <<< "`CMD`"',
        "sh <<E\nCMD\nE", "cat <<E | sh\nCMD\nE", "cat <<A <<B\nA\nB\nCMD", "cat <<\"E\"\nE\nCMD",
        "cat <<\\E\nE\nCMD",
    ],
    "a redirection": [
        "CMD > out", "CMD >> out", "CMD >| out", "CMD &> out", "CMD &>> out", "CMD >& out",
        "CMD < in", "CMD <> f", "CMD 2> err", "CMD 3>&3", "CMD > .git/hooks/pre-commit",
        "ls > a; CMD", ">out CMD", "CMD > /dev/nullx", "CMD >/dev/tcp/1.2.3.4/80", "CMD {fd}>out",
        "CMD 2>&1x", "CMD >&-", "CMD &>/dev/null", "CMD > /dev/null/../sda", "CMD 15>/dev/null",
        "ls &>/dev/null CMD", "CMD 12>&1", "CMD </dev/tcp/a/1",
    ],
    "a wrapper": [
        "env CMD", "env A=1 CMD", "env -i CMD", "/usr/bin/env CMD", "sudo CMD", "sudo -u x CMD",
        "doas CMD", "xargs CMD", "ls | xargs CMD", "ls | xargs -n1 -I{} CMD", "watch CMD",
        "setsid CMD", "ionice -c3 CMD", "chroot / CMD", "unshare -r CMD", "nsenter -t 1 CMD",
        "flock l CMD", "parallel CMD", "strace CMD", "ltrace CMD", "gdb --args CMD",
        "valgrind CMD", "taskset 1 CMD", "chrt 1 CMD", "runuser -u x CMD", "su x -- CMD",
        "pkexec CMD", "systemd-run CMD", "fakeroot CMD", "firejail CMD", "bwrap CMD",
        "prlimit CMD", "setarch CMD", "busybox CMD", "torsocks CMD", "proxychains CMD",
        "xvfb-run CMD", "dbus-run-session CMD", "unbuffer CMD", "rlwrap CMD", "hyperfine 'CMD'",
        "entr CMD", "watchexec CMD", "faketime x CMD", "numactl CMD", "perf stat CMD",
        "run-parts x; CMD", "timeout CMD", "timeout -x 5 CMD", "nice --x CMD", "stdbuf CMD",
        "time -o f CMD", "/usr/bin/time CMD", "nohup -x CMD", "timeout 5 env CMD",
        "nice sudo CMD", "command -v CMD", "nice -n5 eval CMD", "timeout 5 bash -c 'CMD'",
        "command eval CMD", "sg root CMD", "run0 CMD", "linux64 CMD", "chronic CMD", "rr CMD",
        "capsh -- -c 'CMD'", "systemd-inhibit CMD", "gtimeout 5 CMD", "ts CMD", "env -SCMD",
        "/lib64/ld-linux-x86-64.so.2 /bin/CMD", "ld-musl-x86_64.so.1 CMD", "bash-5.2 -c 'CMD'",
        "socat - EXEC:'CMD'", "ksh93 -c 'CMD'", "eatmydata CMD",
    ],
    "an assignment": [
        "A=1 CMD", "PATH=. CMD", "LD_PRELOAD=./x.so CMD", "A=1 B=2 CMD", "A+=1 CMD", "A=1; CMD",
        "IFS=x CMD", "GIT_PAGER=x CMD", "BASH_ENV=x CMD", "a[0]=1 CMD", "A='x y' CMD", "A= CMD",
        "export A=1; CMD", "declare A=1; CMD", "readonly A=1; CMD", "local A=1; CMD",
        "typeset A=1; CMD", "printf -v PATH .; CMD", "read PATH; CMD", "unset PATH; CMD",
        "ls && A=1 && CMD",
    ],
    "an expansion": [
        "CMD $x", "CMD ${x}", 'CMD "$x"', "CMD $HOME", "CMD $@", "CMD $1", "CMD ${x#y}",
        "CMD ${!x}", "CMD *", "CMD ?", "CMD [ab]", "CMD *.py", "CMD {a,b}", "CMD {1..9}", "CMD ~",
        "CMD ~root", "CMD $((1+1))", "CMD $[1+1]", "CMD $'\\x41'", 'CMD $"a"', "CMD !(a)",
        "CMD @(a|b)", "CMD +(a)", "CMD \\a", "CMD a\\ b", 'CMD "a\\b"', "CMD !!", "CMD !$",
        'CMD "a!b"', "CMD $?", "CMD $$",
    ],
    "a comment or a continued line": [
        "CMD # x", "# x\nCMD", "ls # x\nCMD", "CMD \\\n x", "ls \\\n; CMD", "ls; # x\nCMD",
        "#!/bin/sh\nCMD", "CM\\\nD; CMD", "ls; \\\nCMD",
    ],
    "characters that do not show": [
        "CMD\r", "ls\r\nCMD", "ls\rCMD", "CMD\x00", "ls\x00; CMD", "ls\x0b; CMD", "ls\x0c; CMD",
        "ls\u00a0; CMD", "ls\u2028CMD", "ls\u200b; CMD", "ls \u202e; CMD", "ls\ufeff; CMD",
        "\u00a0CMD", "ls\u2063; CMD", "ls\x1b[2K; CMD", "ls\x7f; CMD", "ls\x08\x08; CMD",
        "ls\x85CMD", "ls\u3000; CMD", "ls '\x1b[1A'; CMD", "ls\uff1b CMD", "ls \u2066; CMD",
        "ls\U000e0041; CMD", "ls\udcff; CMD",
    ],
    "text that bash would not take": [
        "CMD '", 'CMD "', "CMD `", "CMD $(", "CMD (", "CMD )", "CMD; }", "&& CMD", "CMD &&",
        "CMD |", "; CMD", "CMD ;;", "CMD & ; ls", "| CMD", "CMD <", "CMD >", "fi; CMD", "CMD \\",
        "then CMD", "CMD && || ls", "CMD ; ; ls", "done\nCMD",
    ],
    "nested more than once": [
        "$(" * 20 + "CMD" + ")" * 20, "(" * 50 + "CMD" + ")" * 50, "{ " * 30 + "CMD" + "; }" * 30,
        "eval " * 40 + "CMD", "env " * 40 + "CMD", "sudo env nice setsid CMD", "x=$(y=$(CMD))",
        "bash -c \"bash -c 'CMD'\"", "echo \"$(echo \"$(CMD)\")\"", "cat <(cat <(cat <(CMD)))",
    ],
}  # fmt: skip

HIDDEN: Final[dict[str, list[str]]] = {
    "mentioned where it is data": [
        "echo 'CMD'", 'echo "CMD"', "grep 'CMD' g", "grep -r 'x; CMD' .", "echo 'a\nCMD'",
        "ls; echo 'CMD'", "find . -name 'CMD'", "git log --grep='CMD'", "git commit -m 'CMD'",
    ],
}  # fmt: skip

EXACT: Final[dict[str, dict[str, list[str]]]] = {
    "find: what runs or writes": {
        "allow": [
            "find . -name x", "find . -type f -newer y", "find . -name '*.py' -print",
            "find src tests", "find . -maxdepth 2 -size +1k", "find . -print0",
            "find . -path ./a -prune",
        ],
        "ask": [
            "find . -exec id ';'", "find . -exec id '{}' +", "find . -execdir id ';'",
            "find . -ok id ';'", "find . -okdir id ';'", "find . -delete", "find . -fprint x",
            "find . -fprintf x y", "find . -fprint0 x", "find . -fls x", "find . -name x -delete",
            "find . '-delete'",
        ],
        "deny": [
            "find . -exec rm '{}' +", "find . -execdir rm x ';'", "find . -ok dd ';'",
        ],
    },
    "sort, uniq and xxd: what runs or writes": {
        "allow": [
            "sort f", "sort -u -k 2 f", "sort -rn f", "uniq -c f", "uniq", "xxd f", "ls | sort",
        ],
        "ask": [
            "sort -o f f", "sort -uo f f", "sort --output=f f", "sort --out f f", "sort -of f",
            "sort --compress-program=sh f", "sort --comp=sh f", "sort --c=sh f", "uniq f out",
            "uniq -c f out", "xxd -r f", "xxd f out",
        ],
    },
    "rg, grep and tree: what runs or writes": {
        "allow": [
            "rg x", "rg -n x src", "rg --pre-glob x y", "grep -rn x .", "tree -L 2", "rg -e x",
        ],
        "ask": [
            "rg --pre sh x", "rg --pre=sh x", "rg --hostname-bin x y", "tree -o f", "tree -ao f",
            "rg x '--pre=sh'", "rg --hostname-bin=./x y",
        ],
        "deny": [
            "rg --pre rm x", "rg --pre=/bin/rm x",
        ],
    },
    "tar: what runs": {
        "allow": [
            "tar tf a.tar", "tar -tvf a.tar", "tar --list --file a.tar", "tar tzf a.tgz",
        ],
        "ask": [
            "tar cf a b --checkpoint=1 --checkpoint-action=exec=id", "tar tf a --to-command=id",
            "tar -I id -tf a", "tar tf a --use-compress-program=id", "tar tf a --use-comp=id",
            "tar tIf id a", "tar -tIf id a", "tar tf a --info-script=id", "tar tf a -F id",
            "tar tMf a --new-volume-script=id", "tar tf a --rsh-command=id",
            "tar tf a --rmt-command=id", "tar tf a --checkpoint-act=exec=id",
            "tar tf a --index-file=f",
        ],
    },
    "sed: what runs or writes": {
        "allow": [
            "sed -n 5p f", "sed -n '1,20p' f", "sed s/a/b/ f", "sed -e 's/a/b/g' f",
            "sed '/x/d' f", "sed -n '/a/,/b/p' f", "sed 's/[0-9]*/x/' f",
            "sed -E 's/(a|b)/c/g;s/d/e/' f", "sed '$d' f", "sed -n '$=' f", "sed 's/a\\/b/c/' f",
            "sed -n -e 1p -e 3p f", "sed 's/[[:space:]]*$//' f",
        ],
        "ask": [
            "sed -i s/a/b/ f", "sed --in-place s/a/b/ f", "sed -n 'w out' f",
            "sed 's/a/b/w out' f", "sed 's/a/id/e' f", "sed 1e f", "sed '1e id' f",
            "sed -n '1!e id' f", "sed -f s f", "sed --file=s f", "sed -e p -e 'w o' f",
            "sed '/x/w o' f", "sed 'W o' f", "sed 1!w f", "sed 's/[/]p/g;s/w f/x/' f",
            "sed 'r /etc/passwd' f", "sed -ni p f", "sed -ne 'w o' f", "sed 's|a|b|e' f",
            "sed 'y/a/b/;e id' f", "sed '{e id' f", "sed 's/a/b/;e' f", "sed -s -i p f",
        ],
        "deny": [
            "sed '1e rm f' f", "sed 's/.*/rm f/e' f",
        ],
    },
    "awk: what runs or writes": {
        "allow": [
            "awk '{print $1}' f", "awk -F: '{print $2}' f", "awk 'NR==3' f",
            "awk -F '|' '{print $1}' f", "awk -F , 'END{print NR}' f", "awk -v n=3 'NR==n' f",
            "awk '/x/{c++} END{print c}' f", "ls | awk '{print $5}'",
        ],
        "ask": [
            "awk 'BEGIN{system(\"id\")}'", "awk '{print > \"f\"}' f", "awk '{print | \"sh\"}' f",
            "awk -f p f", "awk 'BEGIN{\"id\" | getline x}'", "awk '{print >> \"f\"}' f",
            "awk -i inplace 1 f", "awk '@load \"filefuncs\"; 1' f", "awk --file=p f",
            "awk -v f=system 'BEGIN{@f(\"id\")}'", "awk -E p f", "awk -o/tmp/x 1 f",
            "awk 'BEGIN { while ((getline l) ) 1 }'", "awk -l x 1",
            "awk -F -F 'BEGIN{system(1)}'",
        ],
        "deny": [
            "awk 'BEGIN{system(\"rm f\")}'", "awk '{print | \"rm f\"}' f",
        ],
    },
    "interpreters: code that no file holds": {
        "allow": [
            "perl x.pl", "perl -w x.pl -e y", "python x.py -c y", "python -m pytest -q",
            "python -u x.py", "python --version", "perl --version", "node x.js -e y",
            "node --version", "python -V", "python -c 'print(1)'", "python -B -m unittest",
        ],
        "ask": [
            "perl -e 'x'", "perl -ne 'x' f", "perl -E x", "perl -pi -e x f", "perl -Mx y.pl",
            "perl -i x f", "python", "python -", "echo x | python", "echo x | perl",
            "python -Bc x", "python -W x -c y", "python -X x y.py", "python -i x.py", "node -e x",
            "node --eval x", "node -p x", "node -r ./x y.js", "node --require ./x y.js", "node",
            "ls | node", "python /dev/stdin", "perl /dev/fd/0", "node -", "perl -d:x y.pl",
            "perl -Ilib y.pl", "perl -x y", "python -m", "node --import ./x y.js",
        ],
        "deny": [
            "perl -e 'system(\"rm f\")'", "python -c 'import os; os.system(\"rm f\")'",
            "python -m timeit 'import os; os.system(\"rm f\")'",
            "node -e 'require(\"child_process\").execSync(\"rm f\")'", "perl -e 'exec qw(rm f)'",
        ],
    },
    "git: what reads": {
        "allow": [
            "git status", "git status --short", "git log --oneline -5", "git diff HEAD^ -- a",
            "git show HEAD:a", "git branch -a", "git switch -c x", "git add -A",
            "git commit -m x", "git --no-pager log", "git -P diff", "git grep -n x",
            "git rev-parse --show-toplevel", "git config --get user.name", "git config --list",
            "git ls-files -o", "git blame -L 1,2 a", "git --version", "git stash list",
            "git log --no-ext-diff", "git diff --exit-code", "git log -S x",
            "git config user.name", "git diff --stat 2>/dev/null | head -3",
            "git log --format='%h %s' && git status",
        ],
    },
    "git: what runs or writes": {
        "ask": [
            "git -C /x status", "git --git-dir=x status", "git --work-tree=x status",
            "git --bare log", "git diff --output=f", "git log --output=f", "git log --outpu=f",
            "git diff --ext-diff", "git show --textconv", "git grep -O x", "git grep -nO x",
            "git grep --open-files-in-pager=id x", "git grep --open-f=id x",
            "git fetch --upload-pack=id o", "git fetch --upload-p=id o",
            "git ls-remote --upload-pack=id o", "git clone -u id x", "git clone -c a=b x",
            "git clone --config a=b x", "git clone --template=t x", "git init --template=t",
            "git clone ext::id", "git fetch 'ext::sh -c id'", "git remote add o ext::id",
            "git rebase -x id", "git rebase --exec=id", "git rebase -i HEAD^",
            "git bisect run id", "git submodule foreach id", "git submodule update",
            "git filter-branch x", "git difftool -x id", "git difftool --extcmd=id",
            "git mergetool", "git archive -o f HEAD", "git archive --output=f HEAD",
            "git archive --remote=x --exec=id HEAD", "git daemon", "git instaweb",
            "git send-email --smtp-server=/x", "git hook run x", "git help --web x",
            "git format-patch -o d HEAD", "git branch --edit-description",
            "git add --interactive", "git init --separate-git-dir=x",
            "git for-each-repo --config=x y", "git credential fill", "git maintenance start",
            "git cat-file --filters HEAD:x", "git read-tree --index-output=f x",
            "git checkout-index --prefix=/x/ -a",
        ],
    },
    "git push, however it is said": {
        "deny": [
            "git -c alias.x=push x", "git -c core.pager=id log", "git -c include.path=f x",
            "git --exec-path=. status", "git --exec-path . x", "git --config-env=alias.x=X x",
            "git -c alias.x='!git push' x", "git submodule foreach 'git push'",
            "git bisect run git push", "git push", "git push -f origin main",
            "git --no-pager push", "git -C . push", "git -c a=b push", "/usr/bin/git push",
            "ls; git push x", "git --git-dir=.git push", "git -P --no-pager push x", "git  push",
            "git 'push'", "'git' push", "g''it push", "git pu''sh", "env git push", "(git push)",
            "git push > f", "git push 2>&1", "timeout 5 git push", "git push --receive-pack=x o",
            "\"git\" push", "git --literal-pathspecs push", "git\tpush",
            "true && git --no-optional-locks push x",
        ],
    },
    "npm publish, with options before it": {
        "allow": [
            "npm run test", "npm run build -- --x", "npm run publish",
        ],
        "ask": [
            "npm install", "npm test", "npm run-script x",
        ],
        "deny": [
            "npm publish", "npm publish --tag x", "npm --prefix . publish", "npm -w a publish",
            "npm --silent --prefix=x publish", "env npm publish", "npm --loglevel x publish y",
        ],
    },
    "a program that runs some of its own words": {
        "ask": [
            "npx ls", "uv run ls", "docker exec a ls", "poetry run touch f",
            "docker run -it a touch f", "uv pip install rm", "docker ps", "npm install rm",
            "uv run git status", "poetry run git log push",
        ],
        "deny": [
            "npx rm f", "npx touch rm", "npm exec rm f", "npm exec -- rm f", "npm x rm",
            "pnpm dlx rm", "pnpm exec /bin/rm f", "yarn exec rm f", "bunx rm", "uv run rm f",
            "uvx rm",
            "uv run --with x rm f", "uv tool run rm", "pipx run rm", "pipenv run rm f",
            "poetry run rm f", "hatch run rm", "bundle exec rm f", "docker run -it a rm f",
            "docker exec -u x a rm f", "podman run a rm f", "kubectl exec a -- rm f",
            "docker compose exec a rm f", "nix-shell --run 'rm f'", "conda run -n x rm f",
            "mise exec -- rm f", "mise x -- rm f", "direnv exec . rm f", "dotenv rm f",
            "op run -- rm f", "concurrently 'ls' 'rm f'", "nodemon --exec rm f",
            "cargo watch -x 'rm f'", "rustup run stable rm f", "pyenv exec rm f",
            "poetry run git push", "uv run git --no-pager push", "docker exec a git push x",
            "/usr/bin/npx rm f", "ls; npx rm f",
            f"docker run {'-e A=1 ' * 30}a rm f", f"npx {'a ' * 300}git push x",
        ],
    },
    "other programs: what runs or writes": {
        "allow": [
            "curl http://x", "date +%s", "make test", "make -j4 all", "file x", "man ls",
            "less f", "make V=1 test", "make CI=true test", "sqlite3 f 'select 1'",
            "curl -w '%{http_code}' x", "vim f",
        ],
        "ask": [
            "make CC=./x", "make 'x=$(shell id)'", "make x:=id", "make x!=id", "make -C /x",
            "make --directory=x", "make -I x", "make MAKEFILES=x", "make .SHELLFLAGS=x",
            "make GNUMAKEFLAGS=x", "curl -w '%output{f}x' y", "curl --engine x y",
            "curl --ssl-sessions f x", "less --lesskey-src=x f", "less --lesskey-content=x f",
            "less -t x f", "sqlite3 d \"attach 'f' as x\"", "sqlite3 d \"vacuum into 'f'\"",
            "sqlite3 d 'select edit(1)'", "sqlite3 -Axf x", "vim -i x f", "vim -V9f g",
            "vim --startuptime f", "vim -q x", "npm run x --script-shell=./x",
            "npm run --script-shell id x", "npm run x --prefix /x", "npm run x --node-opt=x",
            "git format-patch --output-directory x", "git fast-export --export-marks=f HEAD",
            "git apply --unsafe-paths x", "python /proc/self/fd/0", "perl /proc/self/fd/0",
            "python -m timeit x", "echo x | python -m asyncio",
            "curl -o f x", "curl -sO x", "curl --output f x", "curl -K f", "curl -sSLo f x",
            "curl -T f x", "make --eval=x", "make -f x", "make SHELL=./x", "make --file=x",
            "make -E x", "date -s x", "man -P id x", "man --pager=id x", "less +!id f",
            "less -o log f", "vim +!id", "vim -c '!id'", "vim --cmd x f", "vim -S x f",
            "file -C -m x", "sqlite3 d '.shell id'", "sqlite3 -cmd .x d",
            "sqlite3 d \"select load_extension('x')\"", "date --set=x", "man -H x",
        ],
    },
    "a name that merely begins or ends alike": {
        "ask": [
            "lsx", "catf", "ls2 x", "cat.py", "./ls", "/tmp/ls x", "../cat f", "gitx status",
            "xgit status", "run.sh", "/x/run.sh", "../run.sh", "npm runx", "npmx run", "LS",
            "Cat f", "lѕ", "сat f", "еcho x", "ls\u0301", "ｌｓ", "echo\u0435", "ca\u200dt f",
            "gi\u0142 status", "uv run", "uv run python x",
        ],
        "allow": [
            "./run.sh x", "ls", "uv run pytest -q",
        ],
    },
    "a denied name that merely occurs": {
        "allow": [
            "ls rm", "cat rm", "grep rm f", "echo dd", "find . -name rm", "cat src/rm.py",
            "ls 'rm f'",
        ],
        "ask": [
            "rmdir x", "rmx f", "xrm f", "ddrescue a", "form f", "cat > rm.txt",
        ],
        "deny": [
            "/bin/rm f", "./rm f", "../x/rm f", "rm", "rm -rf /", "dd if=a of=b", "ls|rm f",
            "\\rm f",
        ],
    },
    "a denied name that the shell puts together": {
        "deny": [
            "r''m f", 'r""m f', "'r'm f", "r\\m f", "r\\\nm f", "r${x}m f", "r$@m f", "r$()m f",
            "r``m f", "{rm,f}", "r{m,} f", "r? f", "/bin/r? f", "/bin/[r]m f", "r[m] f",
            "$'\\x72m' f", "$'rm' f", "r$(echo m) f", "r`echo m` f", "ls; r* f", "(r? f)",
            "rm${IFS}f", "x=rm; $x f", "$(echo rm) f", "true && /???/rm f", "if r?; then ls; fi",
            "${x:-rm} f", "${x-rm} f", "${x:=rm} f", "${x:+rm} f", "/bin/@(rm) f",
            "/bin/*m f", "sudo r? f", "r${x:-m} f", "r$'m' f", "$'r'm f", "${x}rm f", "! r{m,} f",
            "{ r?; }",
        ],
        "ask": [
            "p?thon x", "$x f", "\"$x\" f", "$(echo ls) f", "$HOME/bin/tool", "*.py", "l? r?",
        ],
    },
    "parts that different rules allow": {
        "allow": [
            "ls && cat f", "cat f | grep x | wc -l", "git status; npm run test",
            "ls; ls; cat f; echo x", "find . -name x | sort | uniq -c | sort -rn | head -5",
            "echo a && python x.py",
        ],
        "ask": [
            "ls && touch f", "cat f | tee g", "ls | xargs cat", "echo x | sh",
            "ls; find . -delete",
        ],
    },
    "another directory for the parts after it": {
        "allow": [
            "cd x", "cd x; cd y", "cd",
        ],
        "ask": [
            "cd x && ls", "cd /tmp && ./run.sh", "cd x; git status", "ls; cd x; make test",
            "cd x | ls", "pushd x; ls", "popd; ls", "cd x\ncat f", "command cd x && ls",
        ],
        "deny": [
            "cd x && rm f", "cd x; git push", "ls; cd x; dd",
        ],
    },
    "length": {
        "allow": [
            "ls " + "a" * 19_000, "ls" + " a" * 9_000,
        ],
        "deny": [
            "ls " + "a" * 20_000, "true; " * 4_000 + "rm f", "ls" + " " * 20_000 + "; rm f",
            "a" * 10**6,
        ],
    },
    "nothing at all": {
        "ask": [
            "", " ", "\n", "\t\n ", ";", "&", "2>&1", ">/dev/null",
        ],
    },
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A shell text, what must be decided about it, and why."""

    text: str
    verdict: str
    why: str

    def __str__(self) -> str:
        shown = self.text if len(self.text) < 60 else f"{self.text[:30]}…{self.text[-20:]}"
        return f"{self.why}: {shown!r}: {self.verdict}"


_VERDICTS: Final = (
    (PLAIN, ("allow", "ask", "deny")),
    (OPAQUE, ("ask", "ask", "deny")),
    (HIDDEN, ("allow", "allow", "allow")),
)


def rows() -> Iterator[Row]:
    """The whole table."""
    for table, verdicts in _VERDICTS:
        for why, templates in table.items():
            for template in templates:
                for command, verdict in zip((ALLOWED, UNKNOWN, DENIED), verdicts, strict=True):
                    yield Row(template.replace("CMD", command), verdict, why)
    for why, groups in EXACT.items():
        for verdict, texts in groups.items():
            for text in texts:
                yield Row(text, verdict, why)
