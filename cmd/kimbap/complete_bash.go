package main

import (
	"io"

	"github.com/spf13/cobra"
)

// withoutPackage has the script for bash work where the package bash-completion is missing,
// as in most containers: there each Tab would print an error of a function not found.
func (c *cli) withoutPackage(bash *cobra.Command) {
	inner := bash.RunE
	bash.RunE = func(cmd *cobra.Command, args []string) error {
		if err := inner(cmd, args); err != nil {
			return err
		}
		_, err := io.WriteString(c.out, bashWords)
		return err
	}
}

// bashWords puts together again what bash parts at = and :, as the package does it.
const bashWords = `
# Without the package bash-completion, words are put together here.
__kimbap_init_completion()
{
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local i glued=
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if [[ ${#words[@]} -gt 0 && ( -n $glued || ${COMP_WORDS[i]} == [=:]* ) ]]; then
            words[${#words[@]}-1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
        glued=
        [[ ${COMP_WORDS[i]} == *[=:] ]] && glued=yes
    done
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=
    ((cword > 0)) && prev=${words[cword-1]}
    return 0
}
`
