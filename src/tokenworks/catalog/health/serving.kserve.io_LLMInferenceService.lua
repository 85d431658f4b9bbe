-- Read in github.com/kserve/kserve v0.16.0: pkg/apis/serving/v1alpha1/llm_inference_service_types.go
-- and llm_inference_service_lifecycle.go. It keeps no condition that tells a failure from a start,
-- so that only what the controller cannot make is Degraded.
local waiting = unseen(obj)
if waiting ~= nil then
  return waiting
end
local status = obj.status
local ready = condition(status.conditions, "Ready")
if ready ~= nil and ready.status == "True" then
  return answer("Healthy", "it serves")
end
local combined = condition(status.conditions, "PresetsCombined")
if combined ~= nil and combined.status == "False" then
  return answer("Degraded", said(combined, "its presets do not fit"))
end
return answer("Progressing", ready and said(ready, "not ready") or "not ready")
