-- Read in argoproj/argo-cd v3.6.1: pkg/apis/application/v1alpha1/types.go.
-- Argo CD has no check of its own for an Application inside another one: without it the waves of
-- applications would not wait for each other. Never Degraded: one broken release must not fail
-- the application that holds them all.
local status = obj.status or {}
local health = (status.health or {}).status
local sync = (status.sync or {}).status
if health == "Healthy" and sync == "Synced" then
  return answer("Healthy", "synced, and all of it is healthy")
end
return answer("Progressing", "sync: " .. (sync or "not yet") .. ", health: " .. (health or "not yet"))
