"""Which keys our manifests may have, and of which type: of Kubernetes' and KEDA's objects and of Compose files, as far as we use them. A new key
belongs here once its name has been looked up in their reference; a key that is not here is taken for a typing error."""

# A type is a Python type, the name of an entry, [a type] for a list, or {str: a type} for a map with keys of ours.
NAMES = {str: str}
OBJECT = {"apiVersion": str, "kind": str, "metadata": "Metadata"}
VERSIONS = {
    "ConfigMap": "v1",
    "Service": "v1",
    "StatefulSet": "apps/v1",
    "Deployment": "apps/v1",
    "ServiceMonitor": "monitoring.coreos.com/v1",
    "ScaledObject": "keda.sh/v1alpha1",
    "Secret": "v1",
    "PodDisruptionBudget": "policy/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "PrometheusRule": "monitoring.coreos.com/v1",
}
KUBERNETES = {
    "Metadata": {"name": str, "labels": NAMES, "annotations": NAMES},
    "Selector": {"matchLabels": NAMES},
    "ConfigMap": OBJECT | {"data": NAMES},
    "Service": OBJECT | {"spec": "ServiceSpec"},
    "ServiceSpec": {"type": str, "clusterIP": str, "publishNotReadyAddresses": bool, "selector": NAMES, "ports": ["ServicePort"]},
    "ServicePort": {"name": str, "port": int, "targetPort": str},
    "StatefulSet": OBJECT | {"spec": "StatefulSetSpec"},
    "StatefulSetSpec": {
        "replicas": int,
        "serviceName": str,
        "podManagementPolicy": str,
        "updateStrategy": {str: str},
        "selector": "Selector",
        "template": "Template",
        "volumeClaimTemplates": ["Claim"],
    },
    "Claim": {"metadata": "Metadata", "spec": "ClaimSpec"},
    "ClaimSpec": {"accessModes": [str], "storageClassName": str, "resources": {str: NAMES}},
    "Deployment": OBJECT | {"spec": "DeploymentSpec"},
    "DeploymentSpec": {"replicas": int, "strategy": {str: str}, "selector": "Selector", "template": "Template"},
    "Template": {"metadata": "Metadata", "spec": "PodSpec"},
    "PodSpec": {
        "automountServiceAccountToken": bool,
        "terminationGracePeriodSeconds": int,
        "topologySpreadConstraints": ["Spread"],
        "securityContext": "PodSecurity",
        "imagePullSecrets": [NAMES],
        "nodeSelector": NAMES,
        "tolerations": [NAMES],
        "priorityClassName": str,
        "setHostnameAsFQDN": bool,
        "containers": ["Container"],
        "volumes": ["Volume"],
    },
    "Spread": {"maxSkew": int, "topologyKey": str, "whenUnsatisfiable": str, "labelSelector": "Selector"},
    "PodSecurity": {"runAsNonRoot": bool, "runAsUser": int, "runAsGroup": int, "fsGroup": int, "seccompProfile": {str: str}},
    "Container": {
        "name": str,
        "image": str,
        "env": ["Variable"],
        "ports": ["ContainerPort"],
        "startupProbe": "Probe",
        "readinessProbe": "Probe",
        "livenessProbe": "Probe",
        "securityContext": "ContainerSecurity",
        "resources": "Resources",
        "imagePullPolicy": str,
        "volumeMounts": ["Mount"],
    },
    "Variable": {"name": str, "valueFrom": "VariableSource"},
    "VariableSource": {"secretKeyRef": "SecretKey"},
    "SecretKey": {"name": str, "key": str},
    "ContainerPort": {"name": str, "containerPort": int},
    "Probe": {"httpGet": "HttpGet", "periodSeconds": int, "failureThreshold": int},
    "HttpGet": {"path": str, "port": str, "scheme": str},
    "ContainerSecurity": {"allowPrivilegeEscalation": bool, "readOnlyRootFilesystem": bool, "capabilities": "Capabilities"},
    "Capabilities": {"drop": [str]},
    "Resources": {"requests": NAMES, "limits": NAMES},
    "Mount": {"name": str, "mountPath": str, "readOnly": bool},
    "Volume": {"name": str, "configMap": {str: str}, "emptyDir": {str: str}, "secret": "SecretVolume", "projected": "Projected"},
    "SecretVolume": {"secretName": str, "defaultMode": int, "items": ["Item"]},
    "Projected": {"defaultMode": int, "sources": ["Source"]},
    "Source": {"secret": "SecretSource"},
    "SecretSource": {"name": str, "items": ["Item"]},
    "Item": {"key": str, "path": str},
    "ServiceMonitor": OBJECT | {"spec": "ServiceMonitorSpec"},
    "ServiceMonitorSpec": {"jobLabel": str, "selector": "Selector", "endpoints": ["Endpoint"]},
    "Endpoint": {"port": str, "path": str, "interval": str, "scheme": str, "tlsConfig": "TlsConfig", "authorization": "Authorization"},
    "Authorization": {"credentials": "SecretKey"},
    "TlsConfig": {"serverName": str, "ca": {str: NAMES}},
    "PrometheusRule": OBJECT | {"spec": "PrometheusRuleSpec"},
    "PrometheusRuleSpec": {"groups": ["RuleGroup"]},
    "RuleGroup": {"name": str, "rules": ["Rule"]},
    "Rule": {"alert": str, "record": str, "expr": str, "for": str, "labels": NAMES, "annotations": NAMES},
    "Secret": OBJECT | {"stringData": NAMES},
    "PodDisruptionBudget": OBJECT | {"spec": "PodDisruptionBudgetSpec"},
    "PodDisruptionBudgetSpec": {"minAvailable": int, "maxUnavailable": int, "unhealthyPodEvictionPolicy": str, "selector": "Selector"},
    "NetworkPolicy": OBJECT | {"spec": "NetworkPolicySpec"},
    "NetworkPolicySpec": {"podSelector": "Selector", "policyTypes": [str], "ingress": ["Ingress"]},
    "Ingress": {"ports": [{str: str}], "from": ["Peer"]},
    "Peer": {"podSelector": "Selector", "namespaceSelector": "Selector"},
    "ScaledObject": OBJECT | {"spec": "ScaledObjectSpec"},
    "ScaledObjectSpec": {
        "scaleTargetRef": "ScaleTarget",
        "minReplicaCount": int,
        "maxReplicaCount": int,
        "pollingInterval": int,
        "cooldownPeriod": int,
        "fallback": "Fallback",
        "advanced": "Advanced",
        "triggers": ["Trigger"],
    },
    "ScaleTarget": {"name": str},
    "Fallback": {"failureThreshold": int, "replicas": int},
    "Advanced": {"horizontalPodAutoscalerConfig": "Autoscaler"},
    "Autoscaler": {"behavior": "Behavior"},
    "Behavior": {"scaleDown": "Scaling", "scaleUp": "Scaling"},
    "Scaling": {"stabilizationWindowSeconds": int},
    "Trigger": {"type": str, "metadata": "PrometheusTrigger"},
    # All of them texts, numbers and flags, too.
    "PrometheusTrigger": {"serverAddress": str, "query": str, "threshold": str, "activationThreshold": str, "ignoreNullValues": str},
}
COMPOSE = {
    "File": {"name": str, "services": {str: "Service"}, "volumes": {str: None}, "secrets": {str: "Secret"}},
    "Service": {
        "build": "Build",
        "image": str,
        "init": bool,
        "restart": str,
        "depends_on": [str],
        "command": [str],
        "environment": NAMES,
        "stop_grace_period": str,
        "read_only": bool,
        "tmpfs": [str],
        "cap_drop": [str],
        "security_opt": [str],
        "ulimits": {str: int},
        "cpus": int,
        "mem_limit": str,
        "secrets": [str],
        "volumes": [str],
        "ports": [str],
    },
    "Build": {"context": str},
    "Secret": {"file": str},
}


def complaints(value, kind, table, where=""):
    """What does not fit the type `kind`: unknown keys, and values of another type, each with its place."""
    if isinstance(kind, str):
        if not isinstance(value, dict):
            return [f"{where}: {kind} expected, found {value!r}"]
        found = [f"{where}.{key}: unknown in {kind}" for key in value if key not in table[kind]]
        return found + [text for key in value if key in table[kind] for text in complaints(value[key], table[kind][key], table, f"{where}.{key}")]
    if isinstance(kind, (list, dict)):
        if not isinstance(value, type(kind)):
            return [f"{where}: a {type(kind).__name__} expected, found {value!r}"]
        (inner,) = kind.values() if isinstance(kind, dict) else kind
        each = value.items() if isinstance(kind, dict) else enumerate(value)
        return [text for key, item in each for text in complaints(item, inner, table, f"{where}[{key}]")]
    fits = value is None if kind is None else type(value) is kind
    return [] if fits else [f"{where}: {kind.__name__ if kind else 'nothing'} expected, found {value!r}"]


def manifest_complaints(document):
    """Of an object of Kubernetes'."""
    kind = document.get("kind")
    if VERSIONS.get(kind) != document.get("apiVersion"):
        return [f"{kind} of {document.get('apiVersion')}: no such kind is known here"]
    return complaints(document, kind, KUBERNETES, kind)


def compose_complaints(file):
    return complaints(file, "File", COMPOSE)
