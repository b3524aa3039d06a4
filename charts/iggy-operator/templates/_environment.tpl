{{/* The program's settings: all of them, and nothing else. */}}
{{- define "iggy-operator.environment" -}}
- name: IGGY_OPERATOR_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: IGGY_OPERATOR_POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: IGGY_OPERATOR_WATCH_NAMESPACES
  value: {{ include "iggy-operator.namespaces" . | fromJsonArray | join "," | quote }}
- name: IGGY_OPERATOR_BROKER_IMAGE
  value: {{ include "iggy-operator.image" (list . .Values.broker.image) | quote }}
- name: IGGY_OPERATOR_SPARK_IMAGE
  value: {{ include "iggy-operator.image" (list . .Values.spark.image) | quote }}
- name: IGGY_OPERATOR_SPARK_VERSION
  value: {{ default (index .Chart.Annotations "iggykube.dev/spark-version") .Values.spark.version | quote }}
- name: IGGY_OPERATOR_IMAGE_PULL_POLICY
  value: {{ .Values.children.imagePullPolicy | quote }}
- name: IGGY_OPERATOR_IMAGE_PULL_SECRETS
  value: {{ .Values.children.imagePullSecrets | join "," | quote }}
- name: IGGY_OPERATOR_RESTART_ON_UPGRADE
  value: {{ .Values.broker.restartOnOperatorUpgrade | quote }}
- name: IGGY_OPERATOR_HTTP_PORT
  value: {{ .Values.metrics.port | int64 | quote }}
- name: IGGY_OPERATOR_LEASE_NAME
  value: {{ .Values.lease.name | quote }}
- name: IGGY_OPERATOR_LEASE_SECONDS
  value: {{ .Values.lease.seconds | int64 | quote }}
- name: IGGY_OPERATOR_WORKERS
  value: {{ .Values.workers | int64 | quote }}
- name: IGGY_OPERATOR_RESYNC_SECONDS
  value: {{ .Values.resyncSeconds | int64 | quote }}
- name: IGGY_OPERATOR_WATCH_SILENCE_SECONDS
  value: {{ .Values.watchSilenceSeconds | int64 | quote }}
- name: IGGY_OPERATOR_LOG_LEVEL
  value: {{ .Values.logLevel | quote }}
- name: IGGY_OPERATOR_DEFAULT_BROKER
  value: {{ .Values.broker.default | toJson | quote }}
{{- end -}}

{{- define "iggy-operator.probe" -}}
periodSeconds: {{ .periodSeconds | int64 }}
timeoutSeconds: {{ .timeoutSeconds | int64 }}
failureThreshold: {{ .failureThreshold | int64 }}
{{- end -}}
