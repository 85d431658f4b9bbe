-- Comes before each check: Argo CD runs every check by itself, and takes a table of status
-- (Healthy, Progressing, Degraded, Suspended) and message.
local function answer(status, message)
  return { status = status, message = message }
end

-- The condition of a list, or nil.
local function condition(conditions, kind)
  for _, item in ipairs(conditions or {}) do
    if item.type == kind then
      return item
    end
  end
  return nil
end

-- Whether what says so was written for an older spec than the present one.
local function stale(object, says)
  local seen, now = says.observedGeneration, object.metadata.generation
  return seen ~= nil and now ~= nil and seen < now
end

local function said(item, otherwise)
  if item.message ~= nil and item.message ~= "" then
    return item.message
  end
  return item.reason or otherwise
end

-- What to say while the controller has not looked at the present spec; nil once it has.
local function unseen(object)
  local status = object.status
  if status == nil or status.conditions == nil then
    return answer("Progressing", "the controller has not seen it yet")
  end
  if stale(object, status) then
    return answer("Progressing", "the controller has not seen the present spec yet")
  end
  return nil
end

-- The health of a queue, which tells it by its condition Active. `whose` admits workloads.
local function queue(object, whose)
  local active = condition((object.status or {}).conditions, "Active")
  if active == nil then
    return answer("Progressing", "Kueue has not seen it yet")
  end
  if stale(object, active) then
    return answer("Progressing", "Kueue has not seen the present spec yet")
  end
  if active.status == "True" then
    return answer("Healthy", said(active, whose .. " admits workloads"))
  end
  if active.reason == "Stopped" then
    return answer("Suspended", said(active, "it is stopped"))
  end
  return answer("Degraded", said(active, whose .. " admits nothing"))
end
