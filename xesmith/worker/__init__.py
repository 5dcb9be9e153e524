"""Worker processes: fork servers inside a toolchain's own Python, and their client.

Candidate code and the compiler run only in children of these servers. To run something in a
child that is confined, and to get its result or a named failure:

    with WorkerPool(python, "time", preload=["torch", "triton"]) as pool:
        result = pool.run("package.module:task", arguments, folder=private_folder,
                          timeout_s=60, confinement=Confinement(device=True))
        result.status, result.value, result.measures

        with pool.converse("package.module:task_with_channel", arguments, folder=...) as talk:
            answer = talk.ask({"do": "call"}, timeout_s=10)  # TaskEndedError says what happened

The task is `def task(arguments, folder)`, or `def task(arguments, folder, channel)` which calls
`channel.serve(handler)`. Modules: `client`, `server` (in the toolchain's Python), `confinement`
(what holds a child, by name), `linux` (system calls), `channel`. All import the standard
library alone; torch and Triton are there by `preload`.
"""
