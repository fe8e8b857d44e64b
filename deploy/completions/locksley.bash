# shellcheck shell=bash
# Completions of locksley and locksleyd for bash. Commands, options and words come from --help, handlers and ids from the daemon.

# The names of options in a --help on standard input.
_locksley_options() { grep -oE '^ {2,4}(-[[:alnum:]-]+,?)+' | tr ', ' '\n' | grep -e '^-'; }

# _locksley_words OPTION: what may follow it, where --help says so in braces.
_locksley_words() { sed -nE "s/^ *${1} .*\{([a-z,]+)\}.*/\1/p" | tr ',' '\n'; }

# The first column of a table that locksley prints.
_locksley_column() { "$@" 2> /dev/null < /dev/null | sed -nE '2,$s/^([^ ]+).*/\1/p'; }

# _locksley_jobs PROGRAM …: the indexes of the jobs of the batch $handler that failed, and of those that run unless they are to be retried.
_locksley_jobs() {
  "$@" results "$handler" --failed 2> /dev/null < /dev/null | sed -nE 's/^job ([0-9]+): .*/\1/p' | head -100
  if [[ $command != retry ]]; then "$@" running "$handler" 2> /dev/null < /dev/null | sed -nE '2,$s/^[^ ]+ +([0-9]+) .*/\1/p' | head -100; fi
}

_locksley() {
  local program=$1 current=$2 previous=$3 server=() command='' handler='' i words=''
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --server | --url | --password-file)
        if [[ -z $command ]]; then
          server+=("${COMP_WORDS[i]}" "${COMP_WORDS[i + 1]}")
          i=$((i + 1))
        fi
        ;;
      -*) ;;
      *) if [[ -z $command ]]; then command=${COMP_WORDS[i]}; elif [[ -z $handler ]]; then handler=${COMP_WORDS[i]}; fi ;;
    esac
  done
  COMPREPLY=()
  if [[ $program == *locksleyd ]]; then
    if [[ $current == -* ]]; then words=$("$program" --help | _locksley_options); fi
  elif [[ $previous == --handler ]]; then
    words=$(_locksley_column "$program" "${server[@]}" handlers)
  elif [[ $previous == --after || $previous == --afterok ]]; then
    words=$(_locksley_column "$program" "${server[@]}" list)
  elif [[ $previous == --* ]] && words=$("$program" ${command:+"$command"} --help | _locksley_words "$previous") && [[ $words ]]; then
    :
  elif [[ $current == -* ]]; then
    words=$("$program" ${command:+"$command"} --help | _locksley_options)
  elif [[ -z $command || ($command == help && -z $handler) ]]; then
    words=$("$program" --help | sed -nE '/^Subcommands:/,/^$/s/^  ([a-z-]+) .*/\1/p')
  else
    case $command in
      submit | run) if [[ -z $handler ]]; then words=$(_locksley_column "$program" "${server[@]}" handlers); fi ;;
      handler)
        if [[ -z $handler ]]; then words=restart; elif [[ $handler == restart ]]; then words=$(_locksley_column "$program" "${server[@]}" handlers); fi
        ;;
      job | log | retry)
        if [[ -z $handler ]]; then words=$(_locksley_column "$program" "${server[@]}" list); else words=$(_locksley_jobs "$program" "${server[@]}"); fi
        ;;
      customer) if [[ -z $handler ]]; then words='get set del'; else words=$(_locksley_column "$program" "${server[@]}" customers); fi ;;
      help | exec | list | backup | customers | handlers | tenants | workers | ping | info | bench | top) ;;
      *) if [[ -z $handler ]]; then words=$(_locksley_column "$program" "${server[@]}" list); fi ;;
    esac
  fi
  # No completion of ours: bash completes names of files (complete -o default).
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -o default -F _locksley locksley locksleyd
