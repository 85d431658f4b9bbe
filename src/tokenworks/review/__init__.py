"""What a change of the repository does: two states of its environments, and their difference.

`snapshot` is one state of one environment as data, `difference` tells two apart, `refusals` says
what no cluster will do, `effects` what it costs, and `comment` writes all of it down.
"""
