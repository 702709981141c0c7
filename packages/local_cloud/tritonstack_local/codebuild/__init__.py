"""CodeBuild: projects, and builds that run their real buildspec on this machine.

app.py is the service; projects.py and builds.py are its actions; unsupported.py lists what it rejects.
builds.py runs builds in threads; runs/ runs the phases of one build and reports its progress; machines/
runs its commands in a container of the project's image if a Docker engine has it, otherwise in a process on
this machine.
"""
