{{/* What the operator may do in a namespace that it watches: the verbs that it uses, and no other. Secrets are never listed. */}}
{{- define "iggy-operator.rules" -}}
- apiGroups: [iggykube.dev]
  resources: [iggystreams, iggytopics]
  verbs: [get, list, watch, patch]
# The broker `iggy`, where a brokerRef is left out. Only people delete brokers.
- apiGroups: [iggykube.dev]
  resources: [iggybrokers]
  verbs: [get, list, watch, create, patch]
# A topic's sinks and sources, and the user that each of them has of its own.
- apiGroups: [iggykube.dev]
  resources: [iggysinks, iggysources, iggyusers]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [iggykube.dev]
  resources: [iggybrokers/status, iggystreams/status, iggytopics/status, iggysinks/status, iggysources/status, iggyusers/status]
  verbs: [patch]
# By name only.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch, delete]
- apiGroups: [""]
  resources: [services, configmaps]
  verbs: [get, create, patch]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, create, patch, delete]
# Volumes are made and grown. Nothing of the operator deletes one.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch]
# A broker's pod is deleted for a restart.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, delete]
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, create, patch, delete]
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors]
  verbs: [get, list, create, patch, delete]
- apiGroups: [sparkoperator.k8s.io, spark.apache.org]
  resources: [sparkapplications]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}

{{/* What people may do, by role: (dict name rule). */}}
{{- define "iggy-operator.user-rules" -}}
view:
  - apiGroups: [iggykube.dev]
    resources: [iggybrokers, iggystreams, iggytopics, iggysinks, iggysources, iggyusers]
    verbs: [get, list, watch]
edit:
  - apiGroups: [iggykube.dev]
    resources: [iggybrokers, iggystreams, iggytopics, iggyusers]
    verbs: [create, update, patch, delete, deletecollection]
sink-edit:
  - apiGroups: [iggykube.dev]
    resources: [iggysinks, iggysources]
    verbs: [create, update, patch, delete, deletecollection]
{{- end -}}
