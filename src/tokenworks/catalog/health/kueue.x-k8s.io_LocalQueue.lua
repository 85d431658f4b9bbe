-- Read in sigs.k8s.io/kueue v0.19.2: apis/kueue/v1beta2/localqueue_types.go and
-- pkg/controller/core/localqueue_controller.go.
local active = condition((obj.status or {}).conditions, "Active")
if active == nil then
  return answer("Progressing", "Kueue has not seen it yet")
end
if stale(obj, active) then
  return answer("Progressing", "Kueue has not seen the present spec yet")
end
if active.status == "True" then
  return answer("Healthy", said(active, "its cluster queue admits workloads"))
end
if active.reason == "Stopped" then
  return answer("Suspended", said(active, "it is stopped"))
end
return answer("Degraded", said(active, "its cluster queue admits nothing"))
