{{/* The value of the label app.kubernetes.io/name. */}}
{{- define "berth.component" -}}
{{- .Values.nameOverride | default .Chart.Name -}}
{{- end -}}

{{/* The base of all names: the names of the release's objects are this or begin with it. */}}
{{- define "berth.name" -}}
{{- $component := include "berth.component" . -}}
{{- $name := contains $component .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $component) -}}
{{- .Values.fullnameOverride | default $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The name in the release of an object that has the name berth or berth-… in config. */}}
{{- define "berth.rename" -}}
{{- printf "%s%s" (include "berth.name" .root) (trimPrefix "berth" .name) -}}
{{- end -}}

{{/*
The scheduler's configuration; empty where the built-in one is to run. With multicluster, every profile writes for ClusterProfiles, too,
unless it has arguments of its own for the publisher.
*/}}
{{- define "berth.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.multicluster.enabled -}}
{{- $output := dict "enabled" true "schedulerName" .Values.multicluster.schedulerName -}}
{{- if eq .Values.clusterProfiles.names "qualified" -}}
{{- if .Values.multicluster.namespace -}}
{{- fail "multicluster.namespace must be empty with clusterProfiles.names: qualified, whose names contain it" -}}
{{- end -}}
{{- $_ := set $output "names" "qualified" -}}
{{- end -}}
{{- with .Values.multicluster.namespace -}}
{{- $_ := set $output "namespace" . -}}
{{- end -}}
{{- $publisher := dict "name" "DecisionPublisher" "args" (dict "clusterProfiles" $output) -}}
{{- $profiles := $config.profiles | default list -}}
{{- $names := list -}}
{{- range $profiles -}}
{{- $names = append $names (.name | default "default") -}}
{{- end -}}
{{- if not (has "default" $names) -}}
{{- $profiles = append $profiles (dict "name" "default") -}}
{{- end -}}
{{- range $profiles -}}
{{- $plugins := list -}}
{{- range .pluginConfig -}}
{{- $plugins = append $plugins .name -}}
{{- end -}}
{{- if not (has "DecisionPublisher" $plugins) -}}
{{- $_ := set . "pluginConfig" (append (.pluginConfig | default list) $publisher) -}}
{{- end -}}
{{- end -}}
{{- $config = merge (dict "profiles" $profiles) $config (dict "apiVersion" "config.berth.dev/v1alpha1" "kind" "PlacementSchedulerConfiguration") -}}
{{- end -}}
{{- if $config -}}
{{- toYaml $config -}}
{{- end -}}
{{- end -}}

{{- define "berth.image" -}}
{{- with .Values.image -}}
{{- .repository }}{{ .digest | empty | ternary (printf ":%s" (.tag | default $.Chart.AppVersion)) (printf "@%s" .digest) -}}
{{- end -}}
{{- end -}}

{{- define "berth.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "berth.name" .) -}}
{{- end -}}

{{- define "berth.selector" -}}
app.kubernetes.io/name: {{ include "berth.component" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "berth.labels" -}}
{{- $own := dict "app.kubernetes.io/version" .Chart.AppVersion "app.kubernetes.io/part-of" "berth" "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version) -}}
{{- merge (include "berth.selector" . | fromYaml) .Values.commonLabels $own | toYaml -}}
{{- end -}}
