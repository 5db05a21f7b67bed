"""Faults on purpose: server processes killed under load, PostgreSQL killed, connections cut, disks that are full.

``python -m tests.faults`` (``make faults``) goes on until so many kills were made, in rounds. After each round the log
of every experiment is read straight from the tables and played again by the library alone, and compared with what was
acknowledged to clients and with what every process thinks. A round that was finished is a line in
``out/faults/rounds.jsonl``: stopped, it goes on from there.
"""
