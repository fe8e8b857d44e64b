#compdef locksley locksleyd
# Completions of locksley and locksleyd for zsh. Commands, options and words come from --help, handlers and ids from the daemon.

_locksley() {
  local program=$words[1] previous=$words[CURRENT-1] command='' handler='' i
  local -a server found
  for ((i = 2; i < CURRENT; i++)); do
    case $words[i] in
      --server | --url | --password-file)
        if [[ -z $command ]]; then
          server+=($words[i] $words[i+1])
          ((i++))
        fi
        ;;
      -*) ;;
      *) if [[ -z $command ]]; then command=$words[i]; elif [[ -z $handler ]]; then handler=$words[i]; fi ;;
    esac
  done
  _locksley_column() { "$@" 2> /dev/null < /dev/null | sed -nE '2,$s/^([^ ]+).*/\1/p' }
  _locksley_options() { grep -oE '^ {2,4}(-[[:alnum:]-]+,?)+' | tr ', ' '\n' | grep -e '^-' }
  # The indexes of the jobs that failed, and of those that run unless they are to be retried.
  _locksley_jobs() {
    "$@" results $handler --failed 2> /dev/null < /dev/null | sed -nE 's/^job ([0-9]+): .*/\1/p' | head -100
    if [[ $command != retry ]]; then "$@" running $handler 2> /dev/null < /dev/null | sed -nE '2,$s/^[^ ]+ +([0-9]+) .*/\1/p' | head -100; fi
  }
  local -a help
  help=($program ${command:+$command} --help)
  if [[ $program == *locksleyd ]]; then
    if [[ $words[CURRENT] == -* ]]; then found=(${(f)"$($program --help | _locksley_options)"}); fi
  elif [[ $previous == --handler ]]; then
    found=(${(f)"$(_locksley_column $program $server handlers)"})
  elif [[ $previous == --after || $previous == --afterok ]]; then
    found=(${(f)"$(_locksley_column $program $server list)"})
  elif [[ $previous == --* ]] && found=(${(s:,:)"$($help | sed -nE "s/^ *${previous} .*\{([a-z,]+)\}.*/\1/p")"}) && (($#found)); then
    :
  elif [[ $words[CURRENT] == -* ]]; then
    found=(${(f)"$($help | _locksley_options)"})
  elif [[ -z $command || ($command == help && -z $handler) ]]; then
    found=(${(f)"$($program --help | sed -nE '/^Subcommands:/,/^$/s/^  ([a-z-]+) .*/\1/p')"})
  else
    case $command in
      submit | run) [[ -z $handler ]] && found=(${(f)"$(_locksley_column $program $server handlers)"}) ;;
      handler)
        if [[ -z $handler ]]; then found=(restart); elif [[ $handler == restart ]]; then found=(${(f)"$(_locksley_column $program $server handlers)"}); fi
        ;;
      job | log | retry)
        if [[ -z $handler ]]; then
          found=(${(f)"$(_locksley_column $program $server list)"})
        else
          found=(${(f)"$(_locksley_jobs $program $server)"})
        fi
        ;;
      customer) if [[ -z $handler ]]; then found=(get set del); else found=(${(f)"$(_locksley_column $program $server customers)"}); fi ;;
      help | exec | list | backup | customers | handlers | tenants | workers | ping | info | bench | top) ;;
      *) [[ -z $handler ]] && found=(${(f)"$(_locksley_column $program $server list)"}) ;;
    esac
  fi
  if (($#found)); then compadd -- $found; else _files; fi
}

_locksley "$@"
