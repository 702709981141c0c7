"""CodeBuild: projects, and builds that run their real buildspec on this machine.

app.py is the service, actions.py what it does, and unsupported.py what it rejects. build_run.py runs the
phases of one build; machines/ runs its commands in a container of the project's image if a Docker engine has
it, otherwise in a process on this machine.
"""
