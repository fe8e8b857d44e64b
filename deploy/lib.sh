# shellcheck shell=bash
# What deploy/demo and deploy/test share: stages that are quiet when they go well, and seconds as people read them.

# Microseconds since the epoch. EPOCHREALTIME has a comma in some locales.
now_us() { echo "${EPOCHREALTIME//[.,]/}"; }

# seconds_since MICROSECONDS: "12.3"
seconds_since() {
  local tenths=$((($(now_us) - $1) / 100000))
  echo "$((tenths / 10)).$((tenths % 10))"
}

# stage TITLE LOG COMMAND...: runs the command with its output in the log. Prints one line with the time it took; while
# it runs, on a terminal, also the end of its log. Returns the command's exit status, but does not say why it failed. A
# function that is called so must return at its first error itself: while bash checks its status, `set -e` is off.
stage() {
  local title=$1 log=$2 started status=0 display='' last
  shift 2
  started=$(now_us)
  mkdir -p "$(dirname "$log")"
  if [[ -t 1 ]]; then
    # The display is in the background, not the command: an interrupt from the keyboard must reach the command.
    while sleep 0.25; do
      last=$(tail -n 1 "$log" 2> /dev/null | tr -cd '[:print:]')
      printf '\r\033[K%-30s %6s s  %s' "$title" "$(seconds_since "$started")" "${last:0:$((${COLUMNS:-80} - 42))}"
    done &
    display=$!
  fi
  "$@" > "$log" 2>&1 < /dev/null || status=$?
  if [[ $display ]]; then
    kill "$display"
    wait "$display" 2> /dev/null || true
    printf '\r\033[K'
  fi
  if ((status == 0)); then
    printf '%-30s %6s s\n' "$title" "$(seconds_since "$started")"
  else
    printf '%-30s %6s s  FAILED, log: %s\n' "$title" "$(seconds_since "$started")" "${log#"$PWD/"}"
  fi
  return "$status"
}

# Prints the part of a build's log that says what went wrong.
show_build_failure() {
  # Ninja prints what failed from "FAILED:" on; CMake from "CMake Error" on.
  awk '/^(FAILED:|CMake Error|ninja: error)/ { shown = 1 } shown' "$1" | head -n 60
  if ! grep -qE '^(FAILED:|CMake Error|ninja: error)' "$1"; then tail -n 30 "$1"; fi
}
