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

{{- define "tunewright.labels" -}}
app.kubernetes.io/name: {{ include "tunewright.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "tunewright.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* The operator's own LLM endpoint, in the words of a run's spec.llm. */ -}}
{{- define "tunewright.llm" -}}
{{- $llm := dict "model" .Values.llm.model -}}
{{- range $field := list "apiBase" "timeoutSeconds" "maxOutputTokens" "price" -}}
{{- with index $.Values.llm $field -}}{{- $_ := set $llm $field . -}}{{- end -}}
{{- end -}}
{{- $llm | toJson -}}
{{- end -}}
