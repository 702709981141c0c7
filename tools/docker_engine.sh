#!/bin/sh
# docker_engine.sh start|stop: run a Docker engine on a machine without one, such as a CI job's. `start` needs root,
# prints what it did or why it failed, and leaves a running engine alone; with --install it installs Debian's package
# if the daemon is missing. `stop` ends only an engine that `start` started.
#
# The engine adds no firewall rules and no default network: containers use the networks they name, or the host's.
set -eu

state="${TRITONSTACK_HOME:-.tritonstack}/docker-engine"
pid_file="$state/pid" log="$state/dockerd.log"

cannot() {
    echo "cannot start a Docker engine: $1" >&2
    exit 1
}

answers() {
    timeout 10 docker version >/dev/null 2>&1
}

# True if the engine that `start` started is running; after a reboot, its id may be another program's.
own() {
    [ -f "$pid_file" ] && [ "$(cat "/proc/$(cat "$pid_file")/comm" 2>/dev/null)" = dockerd ]
}

install_daemon() {
    command -v apt-get >/dev/null || cannot "dockerd is not installed, and apt-get is missing"
    # Debian 13 and newer have a separate package for the client.
    {
        timeout 60 apt-get update || return 1
        packages=docker.io
        apt-cache show docker-cli >/dev/null && packages="docker.io docker-cli"
        # shellcheck disable=SC2086 # a list of packages
        DEBIAN_FRONTEND=noninteractive timeout 180 apt-get install --yes --no-install-recommends $packages
    } >"$state/install.log" 2>&1 </dev/null
}

start() {
    if answers; then
        echo "a Docker engine is already running"
        return
    fi
    mkdir -p "$state"
    [ "$(id -u)" = 0 ] || cannot "root is required"
    if ! command -v dockerd >/dev/null; then
        [ "${1-}" = --install ] || cannot "dockerd is not installed"
        install_daemon || cannot "docker.io could not be installed; see $state/install.log"
        if answers; then
            echo "the Docker service of this machine is running"
            return
        fi
    fi
    command -v docker >/dev/null || cannot "the client (docker) is not installed"
    setsid dockerd --iptables=false --bridge=none >"$log" 2>&1 </dev/null &
    echo $! >"$pid_file"
    for _ in $(seq 60); do
        if answers; then
            echo "started a Docker engine, process $(cat "$pid_file")"
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
        echo "no Docker engine to stop"
        return
    fi
    kill "$(cat "$pid_file")" 2>/dev/null || true
    for _ in $(seq 60); do
        own || break
        sleep 0.5
    done
    if own; then
        echo "the Docker engine (process $(cat "$pid_file")) did not stop" >&2
        exit 1
    fi
    rm "$pid_file"
    echo "stopped the Docker engine"
}

case "${1-}" in
    start) start "${2-}" ;;
    stop) stop ;;
    *) echo "usage: docker_engine.sh start [--install] | stop" >&2; exit 2 ;;
esac
