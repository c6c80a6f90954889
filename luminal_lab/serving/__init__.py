"""Models as endpoints: what `luminal-lab serve` listens with, in the order of a request.

    connections      uvicorn, with a limit to how slowly a client may send or read
    app              who may ask, and which route answers
    http             a request and its answer; limits that hold before anything is allocated
    inference        the Open Inference Protocol: arrays by name, as JSON (`tensors`)
    batching         requests that wait are computed together
    library          an exported folder's library, called by ctypes alone
    completions      OpenAI's routes: texts and chats
    turns            several texts at once, a token in turn
    metrics          what was counted, as Prometheus reads it

An exported folder is served without NumPy and without the rest of the package: what is imported
here before it is ready is all that a start takes.
"""
