# Completions of locksley and locksleyd for fish. Commands, options and words come from --help, handlers and ids from the daemon.

function __locksley_options
    # string reads what is piped to it, but not what is piped to the function.
    cat | string match -rg '^ {2,4}((?:-[\w-]+,?)+)' | string split , | string match -- '-*'
end

function __locksley_column
    $argv 2>/dev/null </dev/null | tail -n +2 | string match -rg '^(\S+)'
end

# The indexes of the jobs of a batch that failed, and of those that run unless they are to be retried.
function __locksley_jobs --argument-names command batch
    $argv[3..] results $batch --failed 2>/dev/null </dev/null | string match -rg '^job (\d+): ' | head -100
    if test $command != retry
        $argv[3..] running $batch 2>/dev/null </dev/null | tail -n +2 | string match -rg '^\S+ +(\d+) ' | head -100
    end
end

function __locksley
    set -l words (commandline -opc)
    set -l program $words[1]
    set -l previous $words[-1]
    set -l server
    set -l command
    set -l handler
    set -l i 2
    while test $i -le (count $words)
        switch $words[$i]
            case --server --url --password-file
                if test -z "$command"
                    set -a server $words[$i] $words[(math $i + 1)]
                    set i (math $i + 1)
                end
            case '-*'
            case '*'
                if test -z "$command"
                    set command $words[$i]
                else if test -z "$handler"
                    set handler $words[$i]
                end
        end
        set i (math $i + 1)
    end
    switch $previous
        case --handler
            __locksley_column $program $server handlers
            return
        case --after --afterok
            __locksley_column $program $server list
            return
        case '--*'
            set -l known ($program $command --help | string match -rg "^ *$previous .*\{([a-z,]+)\}" | string split ,)
            if test -n "$known"
                printf '%s\n' $known
                return
            end
    end
    if test -z "$command"; or test "$command" = help -a -z "$handler"
        $program --help | sed -n '/^Subcommands:/,/^$/p' | string match -rg '^  ([a-z-]+) '
    else if test "$command $handler" = "handler restart"
        __locksley_column $program $server handlers
    else if contains -- $command job log retry; and test -n "$handler"
        __locksley_jobs $command $handler $program $server
    else if test "$command" = customer; and test -n "$handler"
        __locksley_column $program $server customers
    else if test -z "$handler"
        switch $command
            case submit run
                __locksley_column $program $server handlers
            case handler
                echo restart
            case customer
                printf '%s\n' get set del
            case help exec list backup customers handlers tenants workers ping info bench top
            case '*'
                __locksley_column $program $server list
        end
    end
end

# fish has to know the options before the user types one.
function __locksley_declare --argument-names program condition
    for option in ($program $argv[3..] --help 2>/dev/null | __locksley_options)
        if string match -q -- '--*' $option
            complete -c $program -n "$condition" -l (string sub -s 3 -- $option)
        else
            complete -c $program -n "$condition" -s (string sub -s 2 -- $option)
        end
    end
end

set -l commands (locksley --help 2>/dev/null | sed -n '/^Subcommands:/,/^$/p' | string match -rg '^  ([a-z-]+) ')
__locksley_declare locksley "not __fish_seen_subcommand_from $commands"
for command in $commands
    __locksley_declare locksley "__fish_seen_subcommand_from $command" $command
end
__locksley_declare locksleyd true
complete -c locksley -a '(__locksley)'
