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
