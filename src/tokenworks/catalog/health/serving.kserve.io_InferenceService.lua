-- Read in github.com/kserve/kserve v0.16.0: pkg/apis/serving/v1beta1/inference_service_status.go.
-- Argo CD's own check takes the conditions of an older spec for those of the present one.
local waiting = unseen(obj)
if waiting ~= nil then
  return waiting
end
local status = obj.status
local stopped = condition(status.conditions, "Stopped")
if stopped ~= nil and stopped.status == "True" then
  return answer("Suspended", said(stopped, "it is stopped"))
end
local model = status.modelStatus or {}
local moving = model.transitionStatus
if moving == "InvalidSpec" or moving == "BlockedByFailedLoad" then
  return answer("Degraded", (model.lastFailureInfo or {}).message or moving)
end
local ready = condition(status.conditions, "Ready")
if ready ~= nil and ready.status == "True" and moving ~= "InProgress" then
  return answer("Healthy", "it serves")
end
return answer("Progressing", ready and said(ready, "not ready") or "not ready")
