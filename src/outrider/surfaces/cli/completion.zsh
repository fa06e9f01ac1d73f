# Hands over the words up to the cursor, and gets a value and its meaning a line.
# Where there are none, the shell completes the names of files.
_outrider() {
    local tab=$'\t'
    local -a found
    found=(${(f)"$(outrider completion --words "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    (( $#found )) || { _files; return }
    found=("${(@)found//:/\\:}")
    found=("${(@)found/$tab/:}")
    _describe outrider found
}
compdef _outrider outrider
