# Hands over the words up to the cursor, and gets a value and its meaning a line.
# Where there are none, the shell completes the names of files.
_outrider() {
    local IFS=$'\n'
    COMPREPLY=($(outrider completion --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    COMPREPLY=("${COMPREPLY[@]%%$'\t'*}")
}
complete -o default -F _outrider outrider
