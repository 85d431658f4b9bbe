-- Read in sigs.k8s.io/lws v0.9.0: api/leaderworkerset/v1 and updateConditions of
-- pkg/controllers/leaderworkerset_controller.go. A set has no condition that says it failed.
local waiting = unseen(obj)
if waiting ~= nil then
  return waiting
end
local status = obj.status
local available = condition(status.conditions, "Available")
if available ~= nil and available.status == "True" and not stale(obj, available) then
  return answer("Healthy", said(available, "all groups are ready"))
end
local ready, wanted = status.readyReplicas or 0, (obj.spec or {}).replicas or 1
return answer("Progressing", ready .. " of " .. wanted .. " groups are ready")
