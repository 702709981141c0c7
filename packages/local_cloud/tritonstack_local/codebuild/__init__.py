"""CodeBuild: projects, and builds that run their real buildspec on this machine.

app.py is the service; projects.py and builds.py are its actions, refusals.py what it does not do. workshop.py
lets builds wait for their turn, build_run.py is the life of one, phase by phase, and journal.py what is told
of it. Its commands run on a machine (machines.py): a container of the project's image where a Docker engine
holds it (containers.py), else a process of this machine in namespaces of its own (processes.py, and agent.py
inside).
"""
