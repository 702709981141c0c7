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
    timeout 10 docker version >/dev/null 2>&1
}

# The engine that was started from here, if it still runs: after a reboot the id may be another program's.
own() {
    [ -f "$pid_file" ] && [ "$(cat "/proc/$(cat "$pid_file")/comm" 2>/dev/null)" = dockerd ]
}

install_daemon() {
    command -v apt-get >/dev/null || cannot "dockerd is not installed, and there is no apt-get to install it with"
    # Debian 13 and newer have the client in a package of its own, older ones know no such package.
    {
        timeout 60 apt-get update || return 1
        packages=docker.io
        apt-cache show docker-cli >/dev/null && packages="docker.io docker-cli"
        # shellcheck disable=SC2086 # these are words
        DEBIAN_FRONTEND=noninteractive timeout 180 apt-get install --yes --no-install-recommends $packages
    } >"$state/install.log" 2>&1 </dev/null
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
        install_daemon || cannot "docker.io could not be installed; see $state/install.log"
        if answers; then
            echo "a Docker engine runs, as a service of this machine"
            return
        fi
    fi
    command -v docker >/dev/null || cannot "there is no client to ask it with (docker)"
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
    if ! own; then
        rm -f "$pid_file"
        echo "no Docker engine runs that was started from here"
        return
    fi
    kill "$(cat "$pid_file")" 2>/dev/null || true
    for _ in $(seq 60); do
        own || break
        sleep 0.5
    done
    if own; then
        echo "the Docker engine (process $(cat "$pid_file")) does not end" >&2
        exit 1
    fi
    rm "$pid_file"
    echo "the Docker engine has ended"
}

case "${1-}" in
    start) start "${2-}" ;;
    stop) stop ;;
    *) echo "usage: docker_engine.sh start [--install] | stop" >&2; exit 2 ;;
esac
