# Hands over the words up to the cursor, and gets a value and its meaning a line.
# Where there are none, the shell completes the names of files.
function __outrider_complete
    set -l words (commandline -opc) "$(commandline -ct)"
    set -l found (outrider completion --words $words[2..-1] 2>/dev/null)
    if set -q found[1]
        string join -- \n $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c outrider -f -a "(__outrider_complete)"
