{{- define "tunewright.name" -}}
{{- .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "tunewright.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tunewright.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "tunewright.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "tunewright.selectorLabels" -}}
app.kubernetes.io/name: {{ include "tunewright.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tunewright.labels" -}}
{{ include "tunewright.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- /* An image from the registry of global.imageRegistry, where that is set: (dict "image" … "root" $). */ -}}
{{- define "tunewright.mirrored" -}}
{{- $registry := .root.Values.global.imageRegistry | trimSuffix "/" -}}
{{- if and $registry .image -}}
{{- printf "%s/%s" $registry (regexReplaceAll "^(localhost|[^/]+[.:][^/]*)/" .image "") -}}
{{- else -}}
{{- .image -}}
{{- end -}}
{{- end -}}

{{- define "tunewright.image" -}}
{{- $name := .Values.image.repository -}}
{{- with .Values.image.registry -}}{{- $name = printf "%s/%s" . $name -}}{{- end -}}
{{- $version := printf ":%s" (.Values.image.tag | default .Chart.AppVersion) -}}
{{- with .Values.image.digest -}}{{- $version = printf "@%s" . -}}{{- end -}}
{{- include "tunewright.mirrored" (dict "image" (printf "%s%s" $name $version) "root" .) -}}
{{- end -}}

{{- define "tunewright.trialImage" -}}
{{- include "tunewright.mirrored" (dict "image" .Values.trial.image "root" .) -}}
{{- end -}}

{{- /* What the restricted Pod Security standard asks for. */ -}}
{{- define "tunewright.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "tunewright.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* Texts of the presets of .Values.catalog, by their keys in the ConfigMap: accelerators.NAME.yaml. */ -}}
{{- define "tunewright.presets" -}}
{{- $texts := dict -}}
{{- range $folder, $presets := .Values.catalog -}}
{{- range $name, $text := $presets -}}{{- $_ := set $texts (printf "%s.%s.yaml" $folder $name) $text -}}{{- end -}}
{{- end -}}
{{- $texts | toJson -}}
{{- end -}}

{{- /* Named after its content: other presets are another Pod, which reads them at its start. */ -}}
{{- define "tunewright.catalogName" -}}
{{- printf "%s-catalog-%s" (include "tunewright.fullname" .) (include "tunewright.presets" . | sha256sum | trunc 8) -}}
{{- end -}}

{{- /* The operator's own LLM endpoint, in the words of a run's spec.llm. */ -}}
{{- define "tunewright.llm" -}}
{{- $llm := dict "model" .Values.llm.model -}}
{{- range $field := list "apiBase" "timeoutSeconds" "maxOutputTokens" "price" -}}
{{- with index $.Values.llm $field -}}{{- $_ := set $llm $field . -}}{{- end -}}
{{- end -}}
{{- $llm | toJson -}}
{{- end -}}

{{- /* What holds for all runs: defaults of trials, what runs may name, limits of namespaces. */ -}}
{{- define "tunewright.site" -}}
{{- $env := list -}}
{{- with .Values.trial.networkProfile -}}
{{- if not (hasKey $.Values.trial.networkProfiles .) -}}
{{- fail (printf "trial.networkProfile: %s is none of trial.networkProfiles: %s" . (keys $.Values.trial.networkProfiles | sortAlpha | join ", ")) -}}
{{- end -}}
{{- range $name, $value := index $.Values.trial.networkProfiles . -}}
{{- $env = append $env (dict "name" $name "value" $value) -}}
{{- end -}}
{{- end -}}
{{- $limits := list -}}
{{- range .Values.namespaceLimits -}}{{- $limits = append $limits (omit . "maxGPUs") -}}{{- end -}}
{{- dict "trial" (dict "pod" .Values.trial.pod "env" $env) "allow" .Values.allow "namespaceLimits" $limits | toJson -}}
{{- end -}}
