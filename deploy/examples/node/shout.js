#!/usr/bin/env node
'use strict';
// A worker: answers in capitals. The handler may be async.

const { serve } = require('../../../proto/clients/node/lib/locksley_worker.cjs'); // or, with that file beside this one, './locksley_worker.cjs'

serve((payload) => payload.toString().toUpperCase());
