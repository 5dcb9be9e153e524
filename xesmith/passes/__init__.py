"""The MLIR passes of passes/, run on Triton IR in this process.

`plugin` finds and loads XeSmithPasses.so, `pipeline` runs passes on text, `reference` tells what
passes there are, and `dump` brings dumps into the form that stock MLIR reads. Nothing is imported
here: a worker process takes one module of these.
"""
