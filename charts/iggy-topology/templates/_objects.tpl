{{/* The objects of one kind: (list root kind entries). Entries are a mapping by name, or a list of entries with a name. */}}
{{- define "iggy-topology.objects" -}}
{{- $root := index . 0 -}}
{{- $kind := index . 1 -}}
{{- $entries := index . 2 -}}
{{- if kindIs "slice" $entries -}}
{{- $seen := dict -}}
{{- range $entries -}}
{{- if hasKey $seen .name -}}
{{- fail (printf "%s %s stands there twice: remove one of the two entries" $kind .name) -}}
{{- end -}}
{{- $_ := set $seen .name . -}}
{{- include "iggy-topology.object" (list $root $kind .name .) -}}
{{- end -}}
{{- else -}}
{{- range $name, $entry := $entries -}}
{{- include "iggy-topology.object" (list $root $kind $name $entry) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* One object: (list root kind name entry). */}}
{{- define "iggy-topology.object" -}}
{{- $root := index . 0 -}}
{{- $kind := index . 1 -}}
{{- $name := index . 2 -}}
{{- $entry := default dict (index . 3) -}}
{{- $values := $root.Values -}}
{{- $own := dict "app.kubernetes.io/part-of" "iggykube" "app.kubernetes.io/managed-by" $root.Release.Service "app.kubernetes.io/instance" $root.Release.Name "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- $annotations := mergeOverwrite (deepCopy (default dict $values.annotations)) (default dict $entry.annotations) -}}
{{- $spec := omit $entry "name" "namespace" "labels" "annotations" -}}
{{- with $spec.config }}
{{- $_ := set $spec "config" (include "iggy-topology.texts" . | fromYaml) }}
{{- end }}
---
apiVersion: iggykube.dev/v1alpha1
kind: {{ $kind }}
metadata:
  name: {{ $name | quote }}
  namespace: {{ coalesce $entry.namespace $values.namespace $root.Release.Namespace }}
  labels:
    {{- mergeOverwrite (deepCopy (default dict $values.labels)) (default dict $entry.labels) $own | toYaml | nindent 4 }}
  {{- with $annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- toYaml $spec | nindent 2 }}
{{ end -}}

{{/* Settings as the text that the broker reads: a number digit for digit, never with an exponent. */}}
{{- define "iggy-topology.texts" -}}
{{- range $key, $value := . }}
{{ $key | quote }}: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
{{- end }}
{{- end -}}
