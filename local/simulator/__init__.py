"""An LLM engine without a GPU: OpenAI's API and vLLM's metrics over a model of an engine.

Runs in an image of its own as the package `simulator`, so its modules import each other
relatively and nothing else of this repository.

    options    command line            requests   what clients may ask, checked
    tokens     tokenizer               text       seeded answers
    blocks     KV blocks, prefix cache engine     batching, in virtual time
    driver     engine in real time     metrics    Prometheus text
    service    life of the process     api        HTTP
"""

VERSION = "0.1.0"
