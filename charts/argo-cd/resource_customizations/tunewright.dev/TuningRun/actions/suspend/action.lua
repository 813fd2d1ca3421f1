-- The annotation, since self-heal would put back a field of the spec that git renders.
if obj.metadata.annotations == nil then
  obj.metadata.annotations = {}
end
obj.metadata.annotations["tunewright.dev/suspend"] = "true"
return obj
