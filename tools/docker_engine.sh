#!/bin/sh
# docker_engine.sh start|stop: a Docker engine on a machine that has Docker's daemon and runs none, such as a CI
# job's. `start` needs root, says in one line what it did or why it could not, and leaves an engine that runs
# already alone; with --install it fetches Debian's package where the daemon is missing. `stop` ends what
# `start` has started, and nothing else.
#
# The engine makes no rules in the machine's firewall and no default network: containers have the networks that
# they are given by name, or the machine's own.
set -eu

state="${TRITONSTACK_HOME:-.tritonstack}/docker-engine"
pid_file="$state/pid" log="$state/dockerd.log"

cannot() {
    echo "no Docker engine was started: $1" >&2
    exit 1
}

answers() {
    docker version >/dev/null 2>&1
}

install_daemon() {
    command -v apt-get >/dev/null || cannot "dockerd is not installed, and there is no apt-get to install it with"
    { timeout 60 apt-get update && timeout 180 apt-get install --yes --no-install-recommends docker.io; } \
        >"$state/install.log" 2>&1 || cannot "docker.io could not be installed; see $state/install.log"
}

start() {
    if answers; then
        echo "a Docker engine runs already"
        return
    fi
    mkdir -p "$state"
    [ "$(id -u)" = 0 ] || cannot "that needs root"
    if ! command -v dockerd >/dev/null; then
        [ "${1-}" = --install ] || cannot "dockerd is not installed"
        install_daemon
    fi
    setsid dockerd --iptables=false --bridge=none >"$log" 2>&1 </dev/null &
    echo $! >"$pid_file"
    for _ in $(seq 60); do
        if answers; then
            echo "a Docker engine runs, process $(cat "$pid_file")"
            return
        fi
        kill -0 "$(cat "$pid_file")" 2>/dev/null || break
        sleep 0.5
    done
    stop >/dev/null
    cannot "$(tail -n 1 "$log")"
}

stop() {
    if [ ! -f "$pid_file" ]; then
        echo "no Docker engine was started from here"
        return
    fi
    pid=$(cat "$pid_file")
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 60); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.5
    done
    rm "$pid_file"
    echo "the Docker engine has ended"
}

case "${1-}" in
    start) start "${2-}" ;;
    stop) stop ;;
    *) echo "usage: docker_engine.sh start [--install] | stop" >&2; exit 2 ;;
esac
