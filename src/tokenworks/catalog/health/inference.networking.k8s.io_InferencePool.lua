-- Read in sigs.k8s.io/gateway-api-inference-extension v1.5.0: api/v1/inferencepool_types.go, and
-- pilot/pkg/config/kube/gateway/inferencepool_collection.go of Istio. A pool that no route names
-- has no parent and no status, which is as it should be until its route comes.
local parents = (obj.status or {}).parents or {}
local used = 0
for _, parent in ipairs(parents) do
  -- Another controller's place holder for pools without a gateway.
  if (parent.parentRef or {}).kind ~= "Status" then
    used = used + 1
    for _, kind in ipairs({ "Accepted", "ResolvedRefs" }) do
      local item = condition(parent.conditions, kind)
      if item == nil or item.status == "Unknown" then
        return answer("Progressing", "the gateway has not said " .. kind .. " yet")
      end
      if stale(obj, item) then
        return answer("Progressing", "the gateway has not seen the present spec yet")
      end
      if item.status ~= "True" then
        return answer("Degraded", kind .. ": " .. said(item, item.status))
      end
    end
  end
end
if used == 0 then
  return answer("Healthy", "no gateway uses it yet")
end
return answer("Healthy", "the gateway sends requests to it")
