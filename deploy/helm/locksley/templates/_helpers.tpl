{{- /* 52 characters: names of pods and of the other objects add to it. */}}
{{- define "locksley.fullname" -}}
{{- $full := contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) }}
{{- .Values.fullnameOverride | default $full | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- /* Which pods: a dict with `root` and `component`, daemon or worker. */}}
{{- define "locksley.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "locksley.labels" -}}
{{ include "locksley.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* What no template can make work is refused: keys of `config` and `workers.config` that a value of the chart stands for, and values that do not
fit together. */}}
{{- define "locksley.checks" -}}
{{- $config := include "locksley.config" . | fromYaml }}
{{- $isCluster := gt (int .Values.replicas) 1 }}
{{- if dig "shutdown" "drain_timeout" "" .Values.config }}{{ fail "config.shutdown.drain_timeout: set drainSeconds, which also is the pod's time to end" }}{{ end }}
{{- if dig "shutdown" "drain_timeout" "" .Values.workers.config }}{{ fail "workers.config.shutdown.drain_timeout: set workers.drainSeconds, which also is the pods' time to end" }}{{ end }}
{{- if dig "store" "engine" "" .Values.config }}{{ fail "config.store.engine: set store.engine, by which the pod has a volume or none" }}{{ end }}
{{- if and .Values.store.postgresql.url (ne .Values.store.engine "postgresql") }}{{ fail "store.postgresql.url: it needs store.engine: postgresql" }}{{ end }}
{{- if and $isCluster (hasKey .Values.config "cluster") }}{{ fail "config.cluster: with several daemons each has the name and the address of its own pod" }}{{ end }}
{{- if and $isCluster .Values.restartOnConfigChange }}{{ fail "restartOnConfigChange: with several daemons an upgrade replaces no pod" }}{{ end }}
{{- if and .Values.tls.http (not .Values.tls.secretName) }}{{ fail "tls.http: it needs tls.secretName" }}{{ end }}
{{- if and (dig "tls" "client_ca" "" $config.http) (ne (dig "tls" "clients" "required" $config.http) "optional") }}
{{- fail "config.http.tls.clients: it needs to be optional, because probes have no certificate" }}
{{- end }}
{{- if and .Values.http.tokenSecret.name (ne $config.http.login "users") }}{{ fail "http.tokenSecret: it needs config.http.login: users" }}{{ end }}
{{- if and .Values.serviceMonitor.enabled (eq (dig "login" "none" $config.http) "users") (not .Values.http.tokenSecret.name) }}
{{- fail "config.http.login: with serviceMonitor.enabled it needs http.tokenSecret, with which Prometheus logs in" }}
{{- end }}
{{- with .Values.workers.keda }}
{{- if gt (int .minReplicas) (int .maxReplicas) }}{{ fail "workers.keda.minReplicas: it is above maxReplicas" }}{{ end }}
{{- end }}
{{- end }}

{{- /* The ports of the daemon. */}}
{{- define "locksley.ports" -}}
{{- $config := include "locksley.config" . | fromYaml }}
ports:
  - {name: wire, port: {{ int $config.listen.port }}}
  - {name: http, port: {{ int $config.http.port }}}
  {{- if .Values.workers.enabled }}
  - {name: workers, port: {{ int $config.workers.port }}}
  {{- end }}
{{- end }}

{{- /* Of the HTTP port of a locksley.yaml. */}}
{{- define "locksley.scheme" -}}
{{ dig "http" "tls" "certificate" "" . | empty | ternary "HTTP" "HTTPS" }}
{{- end }}

{{- /* locksley.yaml of the daemon. */}}
{{- define "locksley.config" -}}
{{- $config := dict
  "listen" (dict "address" "0.0.0.0" "port" 7770)
  "http" (dict "address" "0.0.0.0" "port" 9770 "hosts" (list (include "locksley.fullname" .) (printf "%s.%s.svc" (include "locksley.fullname" .) .Release.Namespace)))
  "log" (dict "format" "json")
  "shutdown" (dict "drain_timeout" (printf "%ds" (int .Values.drainSeconds))) }}
{{- $store := dict "path" "/var/lib/locksley/store" }}
{{- if eq .Values.store.engine "postgresql" }}
{{- $url := required "store.postgresql.url: the database's address" .Values.store.postgresql.url }}
{{- $store = dict "engine" "postgresql" "url" $url "replication" .Values.store.postgresql.replication }}
{{- else if gt (int .Values.replicas) 1 }}
{{- fail "replicas: more than one daemon needs store.engine: postgresql" }}
{{- end }}
{{- $_ := set $config "store" $store }}
{{- $tls := dict "tls" (dict "certificate" "/etc/locksley-tls/tls.crt" "key" "/etc/locksley-tls/tls.key") }}
{{- if .Values.tls.secretName }}
{{- $_ := merge $config.listen (deepCopy $tls) }}
{{- if .Values.tls.http }}{{ $_ := merge $config.http (deepCopy $tls) }}{{ end }}
{{- end }}
{{- if .Values.http.tokenSecret.name }}{{ $_ := merge $config.http (dict "login" "users" "token_file" "/etc/locksley-token/token") }}{{ end }}
{{- if .Values.workers.enabled }}
{{- $handlers := .Values.workers.handlers }}
{{- if not $handlers }}{{ fail "workers.handlers: what they run" }}{{ end }}
{{- $hash := required "workers.passwordHash: of the workers' password, from `locksley hash-password`" .Values.workers.passwordHash }}
{{- $port := dict "address" "0.0.0.0" "port" 7771 }}
{{- if .Values.tls.secretName }}{{ $_ := merge $port (deepCopy $tls) }}{{ else if .Values.workers.insecure }}{{ $_ := set $port "insecure" true }}
{{- else }}{{ fail "workers: they need tls.secretName, or workers.insecure: true" }}{{ end }}
{{- $remote := dict }}
{{- range $name, $handler := $handlers }}
{{- if hasKey $handler "remote" }}{{ fail (printf "workers.handlers.%s.remote: of the daemon's entry, where it is always true" $name) }}{{ end }}
{{- /* What the daemon applies to jobs, wherever they run; the workers have the other keys. */}}
{{- $_ := set $remote $name (merge (dict "remote" true) (pick $handler "timeout" "retries" "max_output" "max_running")) }}
{{- end }}
{{- $user := dict "password_hash" $hash "commands" (list "work") "handlers" (keys $handlers | sortAlpha) }}
{{- $config = merge (dict "workers" $port "handlers" $remote "users" (dict "worker" $user)) $config }}
{{- end }}
{{- mergeOverwrite $config (deepCopy .Values.config) | toYaml }}
{{- end }}

{{- /* locksley.yaml of the workers: clients are not served there. */}}
{{- define "locksley.workerConfig" -}}
{{- $upstream := dict "password_file" "/etc/locksley-worker/password" }}
{{- $owner := include "locksley.config" . | fromYaml }}
{{- $address := printf "worker@%s:%d" (include "locksley.fullname" .) (int $owner.workers.port) }}
{{- if .Values.tls.secretName }}{{ $_ := merge $upstream (dict "url" (printf "rediss://%s" $address) "ca_file" "/etc/locksley-worker/ca.crt") }}
{{- else }}{{ $_ := merge $upstream (dict "url" (printf "redis://%s" $address) "insecure" true) }}{{ end }}
{{- if hasKey .Values.workers.config "handlers" }}{{ fail "workers.config.handlers: put them into workers.handlers, from where the daemon has its part" }}{{ end }}
{{- $handlers := dict }}
{{- range $name, $handler := .Values.workers.handlers }}
{{- /* A handler of which nothing is left is built into the daemon. */}}
{{- with omit $handler "timeout" "retries" "max_running" }}{{ $_ := set $handlers $name . }}{{ end }}
{{- end }}
{{- $config := dict
  "http" (dict "address" "0.0.0.0" "port" 9770)
  "upstream" $upstream
  "handlers" $handlers
  "store" (dict "path" "")
  "log" (dict "format" "json")
  "shutdown" (dict "drain_timeout" (printf "%ds" (int .Values.workers.drainSeconds))) }}
{{- mergeOverwrite (deepCopy $config) (deepCopy .Values.workers.config) | toYaml }}
{{- end }}

{{- /* What the pods of daemons and workers have in common: a dict with `root` and `drainSeconds`. */}}
{{- define "locksley.pod" -}}
automountServiceAccountToken: false
# The time to drain, and 15 s to close. SIGTERM drains; /readyz says no from then on.
terminationGracePeriodSeconds: {{ add .drainSeconds 15 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- /* Of a container: a dict with `root`, `image` (what differs from the daemon's), `scheme` of the HTTP port, `resources` and
`isCluster`. */}}
{{- define "locksley.container" -}}
image: {{ printf "%s:%s" (.image.repository | default .root.Values.image.repository) (.image.tag | default .root.Values.image.tag | default .root.Chart.AppVersion) }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ .scheme }}}
  {{- if .isCluster }}
  # Clients follow from one daemon to the other.
  periodSeconds: 1
  failureThreshold: 1
  {{- else }}
  periodSeconds: 5
  {{- end }}
# It finds a stall in a minute, and needs a probe now and then for it.
livenessProbe:
  httpGet: {path: /healthz, port: http, scheme: {{ .scheme }}}
  periodSeconds: 10
  failureThreshold: 3
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources: {{- toYaml .resources | nindent 2 }}
{{- end }}
