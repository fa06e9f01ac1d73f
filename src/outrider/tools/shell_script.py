"""The loop that a persistent shell runs: told to on 3, tells on 4, prints on 5."""

import shlex

# One line, so that a shell's messages count the lines of the command and not those of the loop.
_LOOP = (
    "__outrider_keep() {{"
    " {builtin}printf '%s/' \"$PWD\" >| {folder}/cwd;"
    " {{ {builtin}export -p; {functions}; }} >| {folder}/state; }};"
    " if [ -f {folder}/state ]; then . {folder}/state; fi;"
    ' if [ -f {folder}/cwd ]; then cd -- "{cwd}"; fi;'
    " trap __outrider_keep EXIT;"
    " {builtin}printf 'ready\\0\\0\\0%s\\0' \"$PWD\" >&4;"
    " while IFS= {builtin}read -r __outrider_call <&3; do"
    ' {builtin}eval "{command}" </dev/null >&5 2>&1 3<&- 4>&- 5>&-;'
    " __outrider_status=$?; __outrider_keep;"
    " {builtin}printf 'done\\0%s\\0%s\\0%s\\0'"
    ' "$__outrider_call" "$__outrider_status" "$PWD" >&4;'
    " done"
)


def shell_command(program: str, folder: str) -> list[str]:
    """Return how to start a shell that runs `folder/command` each time it is told to.

    After each command, and when it ends, it keeps its working directory, its functions (bash
    only) and its exported variables in the folder; a shell that is started there takes them up.
    """
    quoted = shlex.quote(folder)
    if program.endswith("bash"):
        script = _LOOP.format(
            builtin="builtin ",
            folder=quoted,
            functions="builtin declare -f",
            cwd=f"$(<{quoted}/cwd)",
            command=f"$(<{quoted}/command)",
        )
        return [program, "--norc", "--noprofile", "-c", script, "bash"]
    script = _LOOP.format(
        builtin="",
        folder=quoted,
        functions=":",
        cwd=f"$(cat {quoted}/cwd)",
        command=f"$(cat {quoted}/command)",
    )
    return [program, "-c", script, "sh"]
