"""What an environment on AWS consists of, worked out from its documents and the catalogue."""

from tokenworks.render.aws.plan import AwsPlan, PoolPlan, TaintPlan, plan_of

__all__ = ["AwsPlan", "PoolPlan", "TaintPlan", "plan_of"]
