"""A stand-in for the AWS provider, for previews without an account, credentials or network.

The Pulumi engine talks to it as to the real one (`PULUMI_DEBUG_PROVIDERS`). It knows every
resource's inputs from the provider's Python SDK and checks each value's type against them, and
enumerations, patterns and lengths against the service models that botocore carries. It makes
nothing, reads nothing, and refuses to be applied with.
"""
