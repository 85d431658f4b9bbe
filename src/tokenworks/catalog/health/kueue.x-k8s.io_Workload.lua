-- Read in sigs.k8s.io/kueue v0.19.2: apis/kueue/v1beta2/workload_types.go. Waiting for quota is
-- waiting; what can never be admitted, or was put aside, is a fault.
local conditions = (obj.status or {}).conditions
local finished = condition(conditions, "Finished")
if finished ~= nil and finished.status == "True" then
  if finished.reason == "Failed" or finished.reason == "OutOfSync" then
    return answer("Degraded", said(finished, "its pods failed, or are not those that it counted"))
  end
  return answer("Healthy", said(finished, "finished"))
end
if (obj.spec or {}).active == false then
  return answer("Suspended", "it has been deactivated")
end
local reserved = condition(conditions, "QuotaReserved")
if reserved ~= nil and reserved.status == "False" and not stale(obj, reserved) then
  if reserved.reason == "Misconfigured" or reserved.reason == "ExceedsMaxQuota" then
    return answer("Degraded", said(reserved, "no quota can ever hold it"))
  end
  return answer("Progressing", said(reserved, "waiting for quota"))
end
local admitted = condition(conditions, "Admitted")
if admitted == nil or admitted.status ~= "True" or stale(obj, admitted) then
  return answer("Progressing", "waiting to be admitted")
end
local ready = condition(conditions, "PodsReady")
if ready ~= nil and ready.status ~= "True" then
  return answer("Progressing", said(ready, "its pods are starting"))
end
return answer("Healthy", said(admitted, "admitted"))
