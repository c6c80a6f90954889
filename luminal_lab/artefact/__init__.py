"""Models that run without us: a compile for the CPU as a folder of C, weights and a runner.

    compiled.export("digits")

    digits/digits.c, digits.h    kernels, launches and the binding of sizes
           digits.so             the same, compiled
           weights.safetensors   mapped, never copied
           model.json            inputs, outputs, dims
           run.py                Model(folder)(**inputs), with NumPy and ctypes alone
           main.c, Makefile      a program that needs no Python

`contents` says what goes in, `rows` which rows of it are independent, `sizes` which sizes of dims
were chosen, `source` writes the C, `folder` the folder, and `targets` says for which machines.
`runner.py` is what becomes run.py.
"""
