"""LLM engines without a GPU: their APIs, metrics and ways to work together over a model of one.

Runs in an image of its own as the package `simulator`, so its modules import each other
relatively and nothing else of this repository.

    options    own command line        engines    command lines and endpoints of real ones
    requests   what clients may ask    setup      what those say beyond our options
    tokens     tokenizer               text       seeded answers
    blocks     KV blocks, prefix cache engine     batching, in virtual time
    driver     engine in real time     core       an engine with its rank
    metrics    Prometheus text         names      what each engine calls things
    service    life of one server      api        HTTP
    kv         disaggregated serving   nixl, bootstrap   as vLLM and SGLang do it
    peers      simulators talk         group      processes that are one engine
    plan       what a process is to do process    runs it
"""

VERSION = "0.1.0"
