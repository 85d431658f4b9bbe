-- Read in sgl-project/rbg v0.7.0: api/workloads/v1alpha2/rolebasedgroup_types.go. A group has no
-- condition that says it failed.
local waiting = unseen(obj)
if waiting ~= nil then
  return waiting
end
local status = obj.status
local ready = condition(status.conditions, "Ready")
if ready ~= nil and ready.status == "True" and not stale(obj, ready) then
  return answer("Healthy", said(ready, "all roles are ready"))
end
local late = {}
for _, role in ipairs(status.roleStatuses or {}) do
  if (role.readyReplicas or 0) < (role.replicas or 0) then
    table.insert(late, role.name .. " " .. (role.readyReplicas or 0) .. "/" .. role.replicas)
  end
end
if #late > 0 then
  return answer("Progressing", "not ready: " .. table.concat(late, ", "))
end
return answer("Progressing", ready and said(ready, "not ready") or "not ready")
