-- Read in argoproj/argo-cd v3.6.1: applicationset/controllers/applicationset_controller.go and
-- applicationset/status/resource_status.go. Argo CD's own check is content when the Applications
-- are made; the wave after them must wait until they are synced and healthy. Never Degraded, as an
-- Application is not: one broken release must not fail the application that holds the sets.
local status = obj.status or {}
local failed = condition(status.conditions, "ErrorOccurred")
if failed ~= nil and failed.status == "True" then
  return answer("Progressing", said(failed, "no applications can be made"))
end
local made = condition(status.conditions, "ResourcesUpToDate")
if made == nil or made.status ~= "True" then
  return answer("Progressing", "its applications are not made yet")
end
local count, waits = 0, {}
for _, item in ipairs(status.resources or {}) do
  count = count + 1
  if item.status ~= "Synced" or (item.health or {}).status ~= "Healthy" then
    waits[#waits + 1] = item.name
  end
end
if count == 0 then
  return answer("Progressing", "no file makes an application yet")
end
if #waits > 0 then
  return answer("Progressing", "not synced and healthy: " .. table.concat(waits, ", "))
end
return answer("Healthy", "all " .. count .. " are synced and healthy")
