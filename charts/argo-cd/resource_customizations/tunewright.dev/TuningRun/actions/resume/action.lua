-- The annotation wins over the spec: "false" lets a run go on that the spec suspends.
local suspend = "tunewright.dev/suspend"
if obj.spec.suspend then
  if obj.metadata.annotations == nil then
    obj.metadata.annotations = {}
  end
  obj.metadata.annotations[suspend] = "false"
elseif obj.metadata.annotations ~= nil then
  obj.metadata.annotations[suspend] = nil
end
return obj
