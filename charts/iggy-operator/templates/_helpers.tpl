{{/*
Puts the defaults where a value is null or was taken out, so that `null` renders the default. Every template calls it first.
Inside `resources` and `podSecurityContext` a null keeps its usual meaning: without that field.
*/}}
{{- define "iggy-operator.prepare" -}}
{{- include "iggy-operator.fill" (list .Values (.Files.Get "files/defaults.yaml" | fromYaml)) -}}
{{- if and .Values.watch.all .Values.watch.namespaces -}}
{{- fail "watch.namespaces: exclude watch.all: set watch.all to false, or leave watch.namespaces empty" -}}
{{- end -}}
{{- end -}}

{{- define "iggy-operator.fill" -}}
{{- $values := index . 0 -}}
{{- range $key, $default := index . 1 -}}
{{- $value := get $values $key -}}
{{- if or (not (hasKey $values $key)) (kindIs "invalid" $value) -}}
{{- $_ := set $values $key (deepCopy $default) -}}
{{- else if and (kindIs "map" $default) (not (has $key (list "resources" "podSecurityContext"))) -}}
{{- include "iggy-operator.fill" (list $value $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Name of all objects; at most 52 characters, so that suffixes fit. */}}
{{- define "iggy-operator.name" -}}
{{- $chart := default .Chart.Name .Values.nameOverride -}}
{{- $name := contains $chart .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $chart) -}}
{{- default $name .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "iggy-operator.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "iggy-operator.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What never changes with a release: a Deployment's selector cannot. */}}
{{- define "iggy-operator.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "iggy-operator.labels" -}}
{{ include "iggy-operator.selector" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: iggykube
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* Of the pods, for a Prometheus that goes by them. */}}
{{- define "iggy-operator.annotations" -}}
kubectl.kubernetes.io/default-container: operator
prometheus.io/scrape: "true"
prometheus.io/port: {{ .Values.metrics.port | int64 | quote }}
prometheus.io/path: /metrics
{{- end -}}

{{/* An image, by digest or by tag: (list root image). */}}
{{- define "iggy-operator.image" -}}
{{- $root := index . 0 -}}
{{- with index . 1 -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $root.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Namespaces with a Role of their own, as JSON; an empty list where all are watched. */}}
{{- define "iggy-operator.namespaces" -}}
{{- if .Values.watch.all -}}
[]
{{- else -}}
{{- default (list .Release.Namespace) .Values.watch.namespaces | uniq | toJson -}}
{{- end -}}
{{- end -}}

{{/* Stops with one sentence where a kind is not there: (list root kind value). */}}
{{- define "iggy-operator.need-kind" -}}
{{- $kind := index . 1 -}}
{{- if not ((index . 0).Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" $kind)) -}}
{{- fail (printf "%s: this cluster has no kind %s (monitoring.coreos.com/v1): install the Prometheus operator first, or set %s to false; `helm template` learns of it by --api-versions monitoring.coreos.com/v1/%s" (index . 2) $kind (index . 2) $kind) -}}
{{- end -}}
{{- end -}}
